"""The settings file: which settings there are, reading it, and checking every value when it is read.

A setting is an option of ``chatkv run``: its name, type, bounds and help are the option's own.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, NamedTuple, cast, get_args, get_origin, get_type_hints

from typer.models import OptionInfo

from chatkv.cli import choices
from chatkv.errors import ChatkvError, UsageError
from chatkv.paths import config_dir
from chatkv.text import nearest, one_line

FILE = "config.toml"
MAX_BYTES = 1 << 20
TABLES = ("run", "sampling", "keys")
NOT_KEPT = frozenset({"web", "record_screen", "tour"})
"""Options that are asked for each time."""
_CHECKS: Mapping[str, Callable[[str], None]] = {
    "theme": choices.check_theme,
    "sessions": lambda value: choices.check_folder("--sessions", Path(value)),
    "web_host": lambda value: choices.check_host("--web-host", value),
}
_KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text in quotes",
    Path: "a path in quotes",
    list: "a list of texts",
}


class Setting(NamedTuple):
    """An option as a setting. ``kind``: int, float, bool, str, Path or list (of texts)."""

    name: str
    table: str
    kind: type
    default: object
    help: str
    values: str
    """What it may be, as ``--help`` says it; may be empty."""
    low: float | None
    high: float | None


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
    """Every setting by its name, in the order of ``chatkv run --help``."""
    from chatkv.cli.run import run

    hints = get_type_hints(run, include_extras=True)
    found = {}
    for name, parameter in inspect.signature(run).parameters.items():
        hint = hints[name]
        option = next((each for each in get_args(hint)[1:] if isinstance(each, OptionInfo)), None)
        if get_origin(hint) is not Annotated or option is None or name in NOT_KEPT:
            continue
        kinds = [each for each in get_args(get_args(hint)[0]) or get_args(hint)[:1] if each is not NoneType]
        kind = list if list in (get_origin(kinds[0]), get_origin(get_args(hint)[0])) else kinds[0]
        table = "sampling" if option.rich_help_panel == "Sampling" else "run"
        found[name] = Setting(
            name,
            table,
            kind,
            parameter.default,
            option.help or "",
            str(option.metavar or ""),
            option.min,
            option.max,
        )
    return found


def load(path: Path | None = None) -> Settings:
    """Read and check the file. Raises UsageError: one line with the file, the setting and what is wrong."""
    import tomllib  # most commands need no settings

    path = path or settings_path()
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path}: larger than {MAX_BYTES >> 20} MiB")
        text = path.read_bytes().decode("utf-8-sig")
        tables = tomllib.loads(text)
    except FileNotFoundError:
        return Settings(path)
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: is not TOML: {one_line(str(error), 200)}") from error
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
    kind = setting.kind
    if setting.name == "kv_memory" and type(value) is int:
        value = str(value)  # in bytes
    if kind is float and type(value) is int:
        value = float(value)
    if kind is list and isinstance(value, str):
        value = [value]
    good = (
        isinstance(value, list) and all(isinstance(each, str) for each in value)
        if kind is list
        else type(value) is (str if kind is Path else kind)
    )
    if not good:
        raise UsageError(f"{where}: takes {_KINDS[kind]}, not {one_line(repr(value), 60)}")
    texts = value if isinstance(value, list) else [value] if isinstance(value, str) else []
    if any("\0" in text for text in texts) or (kind in (Path, str) and not str(value).strip()):
        raise UsageError(f"{where}: can't be {one_line(repr(value), 60)}")
    if kind in (int, float):
        number = cast(float, value)
        if setting.low is not None and number < setting.low:
            raise UsageError(f"{where}: must be at least {setting.low}, got {value}")
        if setting.high is not None and number > setting.high:
            raise UsageError(f"{where}: must be at most {setting.high}, got {value}")
    if kind is Path or (setting.name == "model" and str(value).startswith((".", "~"))):
        # As the file's reader would read it, wherever the command runs.
        return str(folder / os.path.expanduser(str(value)))
    return value


def _refuse_unworkable(path: Path, values: Mapping[str, object]) -> None:
    """What no engine can do with these, each alone and all together."""
    from chatkv.cli.sampling import checked
    from chatkv.cli.sizes import parse_size
    from chatkv.engine.config import EngineConfig

    engine: dict[str, Any] = {}
    for name, value in values.items():
        setting = known()[name]
        alone: dict[str, Any] = {"strict" if name == "strict_blocks" else name: value}
        try:
            if name in _CHECKS:
                _CHECKS[name](str(value))
            if name == "kv_memory":
                alone = {name: parse_size(str(value), "kv_memory")}
            if setting.table == "sampling":
                checked(**alone)
            elif alone.keys() <= EngineConfig.__dataclass_fields__.keys():
                engine |= alone
                EngineConfig(**alone).validate()
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
