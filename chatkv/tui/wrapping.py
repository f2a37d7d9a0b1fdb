"""Lines of Chinese and Japanese break between characters.

Rich and Textual break at white space alone: a sentence without any goes to the next line as one word, and
leaves a gap behind what stands before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import rich._wrap
import textual._wrap

_OPENING = "（［｛〈《「『【〔〖〘〝｢"
"""No line ends with these …"""
_CLOSING = "、。，．：；？！）］｝〉》」』】〕〗〙〟｣・ー々ゝゞぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ％"
"""… nor begins with these."""
_MARKS = r"\u0300-\u036f\u3099\u309a\ufe00-\ufe0f"
"""They belong to the character before."""
# Korean breaks at its spaces.
_WIDE = (
    r"\u2e80-\u2fdf\u3001-\u312f\u31a0-\u33ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff9f"
    r"\U00020000-\U0003ffff"
)
_ANY = re.compile(f"[{_WIDE}]")
_PIECE = re.compile(
    rf"\s*(?:[{_OPENING}]*(?:(?![{_OPENING}])[{_WIDE}]|[^\s{_WIDE}]+)[{_CLOSING}{_MARKS}]*|[{_OPENING}]+)\s*"
)
_words = rich._wrap.words
_chunks = textual._wrap.chunks


def break_between_characters() -> None:
    """From now on, in whatever is drawn and typed."""
    cast(Any, rich._wrap).words = pieces
    cast(Any, textual._wrap).chunks = _typed_pieces


def pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """``(start, end, piece)`` of all that has to stay on one line, with the white space behind it."""
    if _ANY.search(text) is None:
        yield from _words(text)
        return
    at = 0
    while (found := _PIECE.match(text, at)) is not None:
        yield found.start(), found.end(), found.group()
        at = found.end()


def _typed_pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """The same for a text area, whose white space at the start is a piece of its own."""
    for start, end, chunk in _chunks(text):
        if _ANY.search(chunk) is None:
            yield start, end, chunk
        else:
            yield from ((start + at, start + to, piece) for at, to, piece in pieces(chunk))
