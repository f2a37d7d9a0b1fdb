"""The settings file: which settings there are, reading it, and checking every value when it is read.

A setting is an option of ``chatkv run``: both come from the same described fields (``chatkv/schema.py``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from chatkv.cli.options import APP, CHECKS, SAMPLING, Group, key
from chatkv.cli.sizes import parse_size
from chatkv.documents import DocumentError, parse_toml
from chatkv.engine.config import EngineConfig
from chatkv.errors import ChatkvError, UsageError
from chatkv.files import UnreadableError, read_text
from chatkv.paths import config_dir
from chatkv.schema import Field, expanded, fields_of
from chatkv.text import nearest, one_line

FILE = "config.toml"
MAX_BYTES = 1 << 20
TABLES = ("run", "sampling", "keys")
NOT_KEPT = frozenset({"web", "record_screen", "tour"})
"""Options that are asked for each time."""
_KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text in quotes",
    Path: "a path in quotes",
    tuple: "a list of texts",
}


class Setting(NamedTuple):
    """An option as a setting, under its table."""

    name: str
    table: str
    field: Field


@dataclass(frozen=True)
class Settings:
    """What the file at ``path`` says; nothing where there is none."""

    path: Path
    values: Mapping[str, object] = field(default_factory=dict)
    """By the name of the option, of the option's type."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Action → keys, see ``tui/keys``."""


def settings_path() -> Path:
    """Where the file is looked for."""
    return config_dir() / FILE


@cache
def known() -> Mapping[str, Setting]:
    """Return every setting by its name, in order."""
    groups = (("run", Group(EngineConfig)), ("run", APP), ("sampling", SAMPLING))
    return {
        key(field): Setting(key(field), table, field) for table, group in groups for field in group.fields
    }


def load(path: Path | None = None) -> Settings:
    """Read and check the file. Raises UsageError: one line with the file, the setting and what is wrong."""
    path = path or settings_path()
    try:
        if not os.path.lexists(path):
            return Settings(path)
        tables = parse_toml(read_text(path, MAX_BYTES))
    except UnreadableError as error:
        raise UsageError(f"{path}: {error}") from error
    except DocumentError as error:
        raise UsageError(f"{path}: {error}") from error
    return _checked(path, tables)


def _checked(path: Path, tables: Mapping[str, Any]) -> Settings:
    for name, table in tables.items():
        if name in TABLES and isinstance(table, dict):
            continue
        if name in TABLES:
            raise UsageError(f"{path}: [{name}] is a table: write [{name}] and its settings under it")
        setting = known().get(_snake(name))
        if setting is not None and not isinstance(table, dict):
            raise UsageError(f"{path}: {setting.name} belongs under [{setting.table}]")
        listed = ", ".join(f"[{each}]" for each in TABLES)
        raise UsageError(
            f"{path}: '{one_line(name, 60)}' is not known; there are {listed}{nearest(name, TABLES)}"
        )
    values: dict[str, object] = {}
    for table in ("run", "sampling"):
        for name, value in tables.get(table, {}).items():
            where = f"{path}: [{table}] {one_line(name, 60)}"
            setting = known().get(_snake(name))
            if setting is None:
                near = nearest(_snake(name), known()) or "; chatkv config lists them"
                raise UsageError(f"{where}: there is no such setting{near}")
            if setting.table != table:
                raise UsageError(f"{where}: belongs under [{setting.table}]")
            if setting.name in values:
                raise UsageError(f"{where}: is there twice, with - and with _")
            values[setting.name] = _value(where, setting, value, path.parent)
    _refuse_unworkable(path, values)
    return Settings(path, values, _keys(path, tables.get("keys", {})))


def _value(where: str, setting: Setting, value: object, folder: Path) -> object:
    """Return ``value`` as the command line would give it. Raises UsageError that begins with ``where``."""
    field = setting.field
    kind = str if field.size else field.kind
    if field.size and type(value) is int:
        value = str(value)  # in bytes
    if kind is float and type(value) is int:
        value = float(value)
    if kind is tuple and isinstance(value, str):
        value = [value]
    good = (
        isinstance(value, list) and all(isinstance(each, str) for each in value)
        if kind is tuple
        else type(value) is (str if kind is Path else kind)
    )
    if not good:
        raise UsageError(f"{where}: takes {_KINDS[kind]}, not {one_line(repr(value), 60)}")
    texts = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    if any("\0" in text for text in texts) or (kind in (Path, str) and not str(value).strip()):
        raise UsageError(f"{where}: can't be {one_line(repr(value), 60)}")
    if not field.size and (problem := field.problem(value)) is not None:
        raise UsageError(f"{where}: {problem}")
    if kind is Path or (setting.name == "model" and str(value).startswith((".", "~"))):
        # As the file's reader would read it, wherever the command runs.
        return str(folder / expanded(str(value)))
    return value


def _refuse_unworkable(path: Path, values: Mapping[str, object]) -> None:
    """Refuse what only a look at the machine can tell, and what does not work together."""
    engine: dict[str, Any] = {}
    for name, value in values.items():
        setting = known()[name]
        option = setting.field.option
        taken: Any = value
        try:
            if name in CHECKS:
                CHECKS[name](option, value)
            if setting.field.size:
                taken = parse_size(str(value), option)
            if name in fields_of(EngineConfig) or setting.field.flag:
                engine[setting.field.name] = taken
                EngineConfig(**{setting.field.name: taken}).validate()
        except ChatkvError as error:
            told = _plain(str(error)).removeprefix(f"{name} ")
            raise UsageError(f"{path}: [{setting.table}] {name}: {told}") from None
    try:
        EngineConfig(**engine).validate()
    except ChatkvError as error:
        raise UsageError(f"{path}: [run] {_plain(str(error))}") from None


def _plain(message: str) -> str:
    """An option's message as a setting's: ``--kv-memory`` is ``kv_memory`` here."""
    words = message.split(" ")
    return " ".join(_snake(word.removeprefix("--")) if word.startswith("--") else word for word in words)


def _keys(path: Path, table: Mapping[str, object]) -> Mapping[str, tuple[str, ...]]:
    if not table:
        return {}
    from chatkv.tui.keys.keymap import KeysError, read_keys

    try:
        return read_keys(table)
    except KeysError as error:
        raise UsageError(f"{path}: [keys] {error}") from None


def _snake(name: str) -> str:
    return name.replace("-", "_")
