"""JSON and TOML from outside: parsed within bounds, and what is wrong told in one line that names the field.

Python's parsers bound neither depth nor digits: a value nested hundreds of times breaks what looks at it next
(``repr``, a comparison, a copy), and a number of 400 digits is none that can be computed with.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from chatkv.text import one_line

DEPTH = 100
"""Lists and objects may be nested so deep; real files have up to 10 levels."""
DIGITS = 20
"""Of a whole number: 64 bits have no more."""
PARTS = 20
"""Of a TOML key: ``[a.b.c]`` has three."""
_FLOAT_LENGTH = 1100
"""Characters of any other number; a double written in full has fewer."""

_DIGITS_AS_ZERO = bytes.maketrans(b"123456789E", b"000000000e")
_SUSPICIOUS = (b"0" * (DIGITS + 1), b"e000", b"e+000")
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*+:)?|[\[\]{}]', re.DOTALL)
_LONG_WHOLE = re.compile(r"(?:[0-9]_?+){1000}")
_TOML_TOKEN = re.compile(
    r"""(?P<key>"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'|[\w-]++)|(?P<dot>[ \t]*+\.[ \t]*+)|.""", re.DOTALL
)
_SHOWN = 6
"""Levels of a path that are named."""


class DocumentError(ValueError):
    """What is wrong with a text, in words that go behind its file's name: ``rope_theta: a number of …``."""


class _Odd:
    """In place of a number that is none, until its path is known."""

    def __init__(self, why: str) -> None:
        self.why = why


def parse_json(text: str, *, constants: bool = False) -> Any:
    """Return the value that ``text`` holds.

    ``constants``: NaN and Infinity, which are no JSON, are numbers: transformers writes them.
    Raises DocumentError: no JSON, nested more than ``DEPTH`` times, a number that can't be computed with.
    """
    try:
        value = _loaded(text, constants)
    except json.JSONDecodeError as error:
        raise DocumentError(f"is not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from None
    except RecursionError:
        raise DocumentError(_too_deep(text)) from None
    if text.count("[") + text.count("{") > DEPTH and _is_deep(value):
        raise DocumentError(_too_deep(text))
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of ``text``. Raises DocumentError as ``parse_json`` does."""
    import tomllib  # most commands read none

    # A key of many parts takes the library time and memory that grow with their square.
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") >= PARTS and _has_long_key(line):
            raise DocumentError(f"line {number}: a key of more than {PARTS} parts")
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DocumentError(f"is not TOML: {one_line(str(error), 200)}") from None
    except RecursionError:
        raise DocumentError(f"values are nested more than {DEPTH} deep") from None
    except ValueError:  # the one that is left: Python converts no thousands of digits
        found = _LONG_WHOLE.search(text)
        number = text.count("\n", 0, found.start()) + 1 if found else 1
        raise DocumentError(f"line {number}: {_too_long('thousands of')}") from None
    if _is_deep(value):
        raise DocumentError(f"values are nested more than {DEPTH} deep")
    for path, each in _leaves(value):
        if type(each) is int and abs(each) >= 10**DIGITS:
            raise DocumentError(
                f"{path}: {_too_long(len(str(abs(each))) if each.bit_length() < 10_000 else 'thousands of')}"
            )
    return value


def _loaded(text: str, constants: bool) -> Any:
    odd: list[_Odd] = []

    def whole(digits: str) -> int | _Odd:
        length = len(digits.lstrip("-"))
        return int(digits) if length <= DIGITS else strange(_too_long(length))

    def fraction(digits: str) -> float | _Odd:
        if len(digits) > _FLOAT_LENGTH:
            return strange(f"a number of {len(digits):,} characters; at most {_FLOAT_LENGTH:,} are read")
        value = float(digits)
        return value if math.isfinite(value) else strange(f"{digits[:40]} is too large for a number")

    def constant(word: str) -> float | _Odd:
        return float(word) if constants else strange(f"{word} is no JSON number")

    def strange(why: str) -> _Odd:
        odd.append(_Odd(why))
        return odd[-1]

    # Hooks for every number take longer than all the rest; few texts hold what may be a number out of bounds.
    alike = text.encode("utf-8", "surrogatepass").translate(_DIGITS_AS_ZERO)
    hooks: dict[str, Any] = {}
    if any(digits in alike for digits in _SUSPICIOUS):
        hooks = {"parse_int": whole, "parse_float": fraction}
    value = json.loads(text, parse_constant=constant, **hooks)
    if odd:
        path = next((path for path, each in _leaves(value) if each is odd[0]), "")
        raise DocumentError(f"{path}: {odd[0].why}" if path else odd[0].why)
    return value


def _too_long(digits: object) -> str:
    return f"a number of {digits} digits; at most {DIGITS} are read"


def _is_deep(value: Any) -> bool:
    """Whether lists and objects are nested more than ``DEPTH`` times; a level at a time."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH):
        if not level:
            return False
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, dict | list)
        ]
    return bool(level)


def _too_deep(text: str) -> str:
    """What to say of a JSON text that is nested too deep, with the field in which it is."""
    keys: list[str] = []
    key = ""
    for token in _TOKEN.finditer(text):
        if token[2] is not None:
            key = token[1]
        elif token[0] in ("[", "{"):
            keys.append(key)
            key = ""
            if len(keys) > DEPTH:
                break
        elif token[0] in ("]", "}"):
            del keys[-1:]
    path = _named(key for key in keys if key)
    return f"{path}{': ' if path else ''}lists and objects are nested more than {DEPTH} deep"


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """All that is no list and no object, with its path, in order."""
    todo: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while todo:
        path, each = todo.pop()
        if isinstance(each, dict):
            todo += [((*path, str(key)), child) for key, child in reversed(each.items())]
        elif isinstance(each, list):
            todo += [(path, child) for child in reversed(each)]
        else:
            yield _named(path), each


def _named(path: Iterable[str]) -> str:
    return one_line(".".join(one_line(key, 40) for key in itertools.islice(path, _SHOWN)), 120)


def _has_long_key(line: str) -> bool:
    parts, last = 0, ""
    for token in _TOML_TOKEN.finditer(line):
        kind = token.lastgroup or ""
        parts = parts + (kind == "dot") if kind and kind != last else 0
        last = kind
        if parts >= PARTS:
            return True
    return False
