"""Frozen dataclasses to JSON objects and back, with every field checked on the way in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", NoneType: "null"}

_known_hints: dict[Any, dict[str, Any]] = {}
"""Resolving annotations is slow; there are few kinds."""


class FieldError(ValueError):
    """A value is not what its field says; the message names the place and what was expected."""


def encode(record: object) -> dict[str, Any]:
    """A record of ints, floats, texts, bools, None, tuples and other records, as JSON-ready values."""
    return {name: _plain(getattr(record, name)) for name in _hints(type(record))}


def decode(kind: type[T], value: object, where: str) -> T:
    """A ``kind`` from a JSON object; keys it does not know are ignored.

    Raises FieldError.
    """
    if not isinstance(value, dict):
        raise FieldError(f"{where} must be an object, got {_kind(value)}")
    known = {}
    for name, hint in _hints(kind).items():
        if name not in value:
            raise FieldError(f"{where} lacks {name!r}")
        known[name] = _check(hint, value[name], f"{where}.{name}")
    return kind(**known)


def _hints(kind: Any) -> dict[str, Any]:
    if kind not in _known_hints:
        hints = get_type_hints(kind)
        _known_hints[kind] = {f.name: hints[f.name] for f in fields(kind)}
    return _known_hints[kind]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return encode(value) if hasattr(value, "__dataclass_fields__") else value


def _check(hint: Any, value: Any, where: str) -> Any:
    if get_origin(hint) is UnionType:
        options = get_args(hint)
        if value is None and NoneType in options:
            return None
        return _check(next(option for option in options if option is not NoneType), value, where)
    if get_origin(hint) is tuple:
        return _check_items(get_args(hint), value, where)
    if hint is float and type(value) is int:
        return float(value)
    if hint in _WORDS:
        if type(value) is not hint:
            raise FieldError(f"{where} must be {_WORDS[hint]}, got {_kind(value)}")
        return value
    return decode(hint, value, where)


def _check_items(hints: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise FieldError(f"{where} must be a list, got {_kind(value)}")
    if hints[-1] is not Ellipsis:
        if len(value) != len(hints):
            raise FieldError(f"{where} must have {len(hints)} items, got {len(value)}")
        pairs: Iterable[tuple[Any, Any]] = zip(hints, value, strict=True)
        return tuple(_check(hint, item, f"{where}[{i}]") for i, (hint, item) in enumerate(pairs))
    hint = hints[0]
    # Lists of plain numbers are long: no call for each.
    if hint is int and all(type(item) is int for item in value):
        return tuple(value)
    return tuple(_check(hint, item, f"{where}[{i}]") for i, item in enumerate(value))


def _kind(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return _WORDS.get(type(value), "something else")
