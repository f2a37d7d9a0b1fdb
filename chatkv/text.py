"""Text that people and models wrote, made safe for a terminal and for one-line places."""

from __future__ import annotations

import re
from collections.abc import Iterable

BIDI_CONTROLS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Code points that reorder what is around them, so that a text reads as something it is not."""

# C0 without tab and newline, DEL, C1: a terminal would act on them. Lone surrogates can't be encoded.
_DROPPED = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{''.join(map(chr, BIDI_CONTROLS))}]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LINE_BREAKING = re.compile(r"[\u2028\u2029]")


def printable(text: str) -> str:
    """``text`` without C0/C1 and bidirectional controls (newline and tab stay; CR and CRLF become newline).

    Lone surrogates become U+FFFD, so the result can always be encoded.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _SURROGATE.sub("\ufffd", _DROPPED.sub("", text))


def one_line(text: str, limit: int = 60) -> str:
    """``text`` in one printable line of at most ``limit`` characters; a cut one ends in ``…``.

    Runs of white space (newlines and tabs too) become one space.
    """
    # More than this can't be shown anyway; it keeps a 1 MB paste cheap.
    head = printable(text[: limit * 8 + 64])
    line = " ".join(_LINE_BREAKING.sub(" ", head).split())
    if len(line) > limit or (len(text) > limit * 8 + 64 and len(line) == limit):
        return line[: limit - 1].rstrip() + "…"
    return line


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the one of ``known`` nearest to ``word``; empty where none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1, 0.5)
    return f"; did you mean '{near[0]}'?" if near else ""
