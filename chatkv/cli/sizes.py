"""Amounts of memory as people write them."""

from __future__ import annotations

import re
from fractions import Fraction

from chatkv.errors import UsageError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?)(b?)|b)?", re.IGNORECASE | re.ASCII)
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4}
_MOST = 1 << 50


def parse_size(text: str, option: str) -> int:
    """``text`` in bytes: ``512MiB``, ``1.5GB``, ``2g``, ``1073741824``.

    ``KB``/``MB``/``GB`` count in thousands; ``KiB``/``MiB``/``GiB`` and a bare letter in 1024s.

    Raises:
        UsageError: it is not a size, or not between 1 byte and 1024 TiB; the line names ``option``.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{option} {text!r} is not a size; write it like 512MiB, 1.5GB or 2g")
    number, letter, binary, byte = match.groups()
    base = 1000 if byte and not binary else 1024
    size = Fraction(number) * base ** _POWER.get((letter or "").lower(), 0)
    if not 1 <= size <= _MOST:
        raise UsageError(f"{option} {text!r} must be from 1 byte to 1024 TiB")
    return int(size)
