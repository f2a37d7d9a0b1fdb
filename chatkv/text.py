"""Text that people and models wrote, made safe for a terminal and for one-line places."""

from __future__ import annotations

import re

# C0 without tab and newline, DEL, C1: a terminal would act on them. Lone surrogates can't be encoded.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Characters that end a line or reorder what follows them: wrong anywhere in a one-line name.
_LINE_BREAKING = re.compile(r"[\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """``text`` without C0/C1 controls (newline and tab stay; CR and CRLF become newline).

    Lone surrogates become U+FFFD, so the result can always be encoded.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))


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
