"""Text of tokens in one line: what can't be seen gets a symbol, what would act on a terminal goes."""

from __future__ import annotations

import unicodedata

from chatkv.text import BIDI_CONTROLS

_SYMBOLS = {code: chr(0x2400 + code) for code in range(0x20)}
_SYMBOLS |= {0x0A: "↵", 0x09: "⇥", 0x7F: "␡", 0x85: "↵", 0x2028: "↵", 0x2029: "↵"}
_DROPPED = [
    *(code for code in range(0x80, 0xA0) if code != 0x85),
    # Zero width, and those that change the order of what follows. The joiners stay: emoji need them.
    *(0x00AD, 0x180E, 0x200B, *range(0x2060, 0x2070), 0xFEFF),
    *BIDI_CONTROLS,
    *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),
]
_TABLE: dict[int, str | None] = dict.fromkeys(_DROPPED)
_TABLE |= _SYMBOLS
# Lone surrogates and noncharacters can't be encoded, or are no XML.
_TABLE |= dict.fromkeys([*range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\ufffd")


def visible(text: str) -> str:
    """``text`` in one line that is safe for a terminal and for XML.

    Newline ``↵`` (CRLF counts as one), tab ``⇥``, other C0 controls and DEL their control pictures
    (``␛``); C1 controls, bidirectional and zero-width characters are dropped; what can't be encoded
    becomes U+FFFD. Spaces stay.
    """
    return text.replace("\r\n", "\n").translate(_TABLE)


def cells(text: str) -> int:
    """How many terminal cells ``text`` takes: 2 for wide characters, 0 for combining ones."""
    return sum(_width(char) for char in text)


def cut(text: str, limit: int) -> str:
    """``text``, made visible, in at most ``limit`` cells; a cut one ends in ``…``. Cheap for long texts."""
    text = visible(text[: limit * 8 + 64])
    if cells(text) <= limit:
        return text
    out, used = "", 0
    for char in text:
        used += _width(char)
        if used > limit - 1:
            break
        out += char
    return out + "…"


def counted(number: int, noun: str) -> str:
    """``1 node``, ``2,000 nodes``."""
    many = noun.removesuffix("f") + "ves" if noun.endswith("leaf") else noun + "s"
    return f"{number:,} {noun if number == 1 else many}"


def _width(char: str) -> int:
    if unicodedata.combining(char) or char in "\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
