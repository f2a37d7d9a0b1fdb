"""What a value may be, written once with its field: type, bounds, choices, help.

The command line, ``config.toml``, ``/set``, presets, ``chatkv config`` and every check are derived from the
fields of a dataclass whose types are ``Annotated[..., option(...)]``, with ``| None`` behind it or not.
msgspec's ``Meta`` carries the bounds, so the same classes give a JSON schema.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from msgspec import Meta

from chatkv.documents import DocumentError, parse_json
from chatkv.text import nearest, one_line

Choices = Callable[[], Iterable[str]]


def option(
    help: str,
    *,
    ge: float | None = None,
    le: float | None = None,
    gt: float | None = None,
    choices: Choices | None = None,
    check: Callable[[Any], str | None] | None = None,
    panel: str = "",
    flag: str = "",
    metavar: str = "",
    example: object = None,
    size: bool = False,
    length: int | None = None,
) -> Meta:
    """Describe a field.

    ``choices``: the texts it may be, asked for when they are needed (plug-ins may add some). ``check``:
    what else has to hold; it returns what the value must be, or None. ``panel``: its group in ``--help``.
    ``flag``: its name as an option, where that is not the field's. ``example``: for ``config --init``,
    where it has no value of its own. ``size``: bytes, written like ``512MiB``. ``length``: the most
    characters of each text of a list, ``le`` the most texts.
    """
    extra = {
        "choices": choices,
        "check": check,
        "panel": panel,
        "flag": flag,
        "metavar": metavar,
        "example": example,
        "size": size,
        "length": length,
    }
    bounds: dict[str, Any] = {"ge": ge, "le": le, "gt": gt} if length is None else {"max_length": le}
    return Meta(description=help, extra=extra, **{k: v for k, v in bounds.items() if v is not None})


@dataclass(frozen=True, slots=True)
class Field:
    """A field and what may be in it. ``kind``: int, float, bool, str, Path or tuple (of texts)."""

    name: str
    kind: type
    optional: bool
    default: Any
    help: str
    panel: str
    flag: str
    metavar: str
    example: object
    size: bool
    low: float | None
    high: float | None
    above: float | None
    """The value must be greater than this."""
    length: int | None
    _choices: Choices | None
    _check: Callable[[Any], str | None] | None

    @property
    def option(self) -> str:
        """Its name on the command line: ``--block-size``."""
        return f"--{(self.flag or self.name).replace('_', '-')}"

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts it may be; empty: it is not one of a few."""
        return () if self._choices is None else tuple(self._choices())

    @property
    def values(self) -> str:
        """What it takes, as ``--help`` says it; may be empty."""
        return self.metavar or "|".join(self.choices)

    @property
    def wanted(self) -> str:
        """What a value must be, in words."""
        if self._choices is not None:
            return f"one of {', '.join(self.choices)}"
        if self.kind is tuple:
            return f'1 to {self.high} texts, like END or ["\\n\\n", "END"], of up to {self.length} characters'
        if self.kind is bool:
            return "true or false"
        if self.kind in (str, Path):
            return "text" if self.kind is str else "a path"
        kind = "a whole number" if self.kind is int else "a number"
        low = f" above {self.above:g}" if self.above is not None else ""
        if self.low is not None:
            low = f" from {_number(self.low)}"
        if self.high is None or self.high >= 2**31 - 1:
            return f"{kind}{low}" + (" on" if self.low is not None else "")
        return f"{kind}{low} to {_number(self.high)}"

    def problem(self, value: object) -> str | None:
        """Return what ``value`` must be and is not (``must be …, got …``), None where it may be there."""
        if value is None and self.optional:
            return None
        wanted = self.wanted
        if self._fits(value):
            if self._check is None or (other := self._check(value)) is None:
                return None
            wanted = other
        near = nearest(value, self.choices) if isinstance(value, str) and self._choices is not None else ""
        return f"must be {wanted}, got {one_line(repr(value), 60)}{near}"

    def _fits(self, value: object) -> bool:
        if self._choices is not None:
            return isinstance(value, str) and value in self.choices
        if self.kind is tuple:
            return self._are_texts(value)
        if self.kind is bool or isinstance(value, bool):
            return self.kind is bool and isinstance(value, bool)
        if self.kind in (str, Path):
            return isinstance(value, str | Path)
        if not isinstance(value, int if self.kind is int else int | float):
            return False
        if isinstance(value, float) and not math.isfinite(value):
            return False
        if self.above is not None and value <= self.above:
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def _are_texts(self, value: object) -> bool:
        return (
            isinstance(value, list | tuple)
            and len(value) <= (self.high or math.inf)
            and all(isinstance(text, str) and 0 < len(text) <= (self.length or math.inf) for text in value)
        )

    def read(self, text: str) -> object:
        """Return what a person's ``text`` means as its value; what it can't be is for ``problem`` to say."""
        if self.kind is tuple:
            if not text.startswith(("[", '"')):
                return (text,)
            given = _json(text)
            return (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list) else given
        return _json(text.lstrip("+")) if self.kind in (int, float, bool) else text


@cache
def fields_of(owner: type) -> Mapping[str, Field]:
    """Return the described fields of a dataclass by their names, in order."""
    hints = get_type_hints(owner, include_extras=True)
    found = {}
    for each in fields(owner):
        hint, optional = hints[each.name], False
        if get_origin(hint) in (Union, UnionType):
            hint, optional = next(part for part in get_args(hint) if part is not NoneType), True
        meta = next((part for part in get_args(hint)[1:] if isinstance(part, Meta)), None)
        if get_origin(hint) is not Annotated or meta is None or meta.extra is None:
            continue
        kind = get_origin(get_args(hint)[0]) or get_args(hint)[0]
        extra = meta.extra
        default = each.default if each.default_factory is MISSING else each.default_factory()
        found[each.name] = Field(
            each.name,
            kind,
            optional,
            None if default is MISSING else default,
            meta.description or "",
            low=meta.ge,
            high=meta.le if meta.max_length is None else meta.max_length,
            above=meta.gt,
            _choices=extra["choices"],
            _check=extra["check"],
            **{name: extra[name] for name in ("panel", "flag", "metavar", "example", "size", "length")},
        )
    return found


def problem_of(values: Any) -> tuple[Field, str] | None:
    """Return the first field of a dataclass whose value can't be, and what it must be; None: all can."""
    for name, field in fields_of(values.__class__).items():
        if (problem := field.problem(getattr(values, name))) is not None:
            return field, problem
    return None


def expanded(path: str | Path) -> Path:
    """Return ``path`` with ``~`` resolved; unlike Path's own it raises nothing for an unknown user."""
    return Path(os.path.expanduser(path))


def _number(value: float) -> str:
    return f"{value:g}" if value < 1e6 or value != int(value) else str(int(value))


def _json(text: str) -> Any:
    try:
        return parse_json(text)
    except DocumentError:
        return None
