"""Themes: one TOML file each, shipped ones and a person's own, checked before Textual sees them.

A file holds the fields of ``textual.theme.Theme`` and a ``[variables]`` table. Textual itself finds a bad
colour only when the style sheet is built, and dies then; here a bad file is reported and left out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.css.constants import VALID_STYLE_FLAGS
from textual.theme import BUILTIN_THEMES, Theme

from chatkv.documents import DocumentError, parse_toml
from chatkv.errors import ChatkvError
from chatkv.files import UnreadableError, read_text
from chatkv.paths import config_dir, packaged
from chatkv.text import one_line

DEFAULT_THEME = "chatkv-dark"
LIGHT_THEME = "chatkv-light"
"""The default one on a light background."""
TERMINAL_THEME = "chatkv-terminal"
"""In the terminal's own colours, on its own background."""

KV_DEFAULTS: dict[str, str] = {
    "kv-new": "#2f8f46",
    "kv-reused": "#3b82d0",
    "kv-evicted": "#c96a1b",
    "kv-locked": "#9a7d0a",
    "kv-idle": "#7f8694",
    "kv-free": "#808080",
    "kv-copied": "#1d8a99",
    "kv-pinned": "#a35bc4",
}
"""Colours of the cache's states, readable on dark and on light backgrounds, for themes (Textual's own)
that don't set them."""

_ANSI_DEFAULTS: dict[str, str] = {
    # Of the terminal's sixteen what is nearest to new green, reused blue, evicted orange, and is seen on
    # black and on white.
    "kv-new": "ansi_green",
    "kv-reused": "ansi_bright_blue",
    "kv-evicted": "ansi_red",
    "kv-locked": "ansi_yellow",
    "kv-idle": "ansi_default",
    "kv-free": "ansi_bright_black",
    "kv-copied": "ansi_cyan",
    "kv-pinned": "ansi_magenta",
    "frame": "ansi_bright_black",
    # Textual's style sheets use these, and such a theme has them only if it sets them.
    "ansi-background": "ansi_default",
    "ansi-foreground": "ansi_default",
    "foreground-disabled": "ansi_bright_black",
    "surface-active": "ansi_default",
}
"""The same for themes with ``ansi = true``."""

OWN_VARIABLES = (*KV_DEFAULTS, "frame")
"""What a theme may set beside Textual's variables; ``frame`` is the border of a pane without focus."""

_NAME = re.compile(r"[\w.-]{1,40}")
_FIELDS = {f.name: str(f.type) for f in dataclasses.fields(Theme)}
_PERCENT = re.compile(r"\d{1,3}(\.\d+)?%")


@dataclass(frozen=True, slots=True)
class ThemeProblem:
    """A theme file that was left out and why, in one printable line."""

    path: Path
    message: str

    def __str__(self) -> str:
        return one_line(f"theme {self.path.name}: {self.message}", 300)


class ThemeError(ChatkvError):
    """What is wrong with a theme file, in one line."""


def load_themes(folders: Iterable[Path] | None = None) -> tuple[list[Theme], list[ThemeProblem]]:
    """Every good theme in ``folders``, and the faults of the other files.

    Default: the shipped folder, then the person's. A name can be taken once; the first file has it.
    """
    themes: dict[str, Theme] = {}
    problems: list[ThemeProblem] = []
    for folder in folders if folders is not None else (packaged("themes"), config_dir() / "themes"):
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(ThemeProblem(folder, error.strerror or str(error)))
            continue
        for path in paths:
            try:
                theme = read_theme(path)
                if theme.name in themes or theme.name in BUILTIN_THEMES:
                    raise ThemeError(f"the name '{theme.name}' is taken; give it another")
            except ThemeError as fault:
                problems.append(ThemeProblem(path, str(fault)))
            else:
                themes[theme.name] = theme
    return list(themes.values()), problems


def variable_defaults(theme: Theme) -> dict[str, str]:
    """For ``get_theme_variable_defaults``: every variable that style sheets use and ``theme`` may lack."""
    if theme.ansi:
        return dict(_ANSI_DEFAULTS)
    foreground = theme.foreground or theme.to_color_system().generate()["foreground"]
    return {**KV_DEFAULTS, "frame": f"{foreground} 30%"}


MAX_BYTES = 256 * 1024


def theme_names() -> list[str]:
    """What ``--theme`` takes: chatkv's and the person's own first, then Textual's."""
    return [theme.name for theme in load_themes()[0]] + sorted(BUILTIN_THEMES)


def read_theme(path: Path) -> Theme:
    """The theme in one file, fully checked. ``name`` defaults to the file's.

    Raises:
        ThemeError: something is wrong with it; one line says what.
    """
    try:
        values = parse_toml(read_text(path, MAX_BYTES))
    except (UnreadableError, DocumentError) as error:
        raise ThemeError(str(error)) from None
    values.setdefault("name", path.stem)
    for key, value in values.items():
        _check_field(key, value)
    if "primary" not in values:
        raise ThemeError("has no 'primary' colour")
    for name, value in values.get("variables", {}).items():
        _check_variable(name, value)
    theme = Theme(**values)
    try:
        theme.to_color_system().generate()
    except (ColorParseError, ValueError, TypeError, KeyError) as error:
        raise ThemeError(str(error)) from None
    return theme


def _check_field(key: str, value: Any) -> None:
    kind = _FIELDS.get(key)
    match kind:
        case None:
            raise ThemeError(f"unknown key '{key}'; known are {', '.join(_FIELDS)}")
        case "bool":
            good = isinstance(value, bool)
        case "float":
            good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
        case "dict[str, str]":
            good = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
        case _:
            good = isinstance(value, str)
    if not good:
        raise ThemeError(f"'{key}' has a wrong value {value!r}")
    if key == "name" and not _NAME.fullmatch(value):
        raise ThemeError("the name may have letters, digits, '-', '_' and '.' only, at most 40")
    if kind is not None and kind.startswith("str") and key != "name":
        _check_colour(key, value)


def _check_colour(key: str, value: str) -> None:
    try:
        Color.parse(value)
    except ColorParseError:
        raise ThemeError(f"'{key}' is not a colour: {value!r}") from None


def _check_variable(name: str, value: str) -> None:
    if name in KV_DEFAULTS:
        _check_colour(name, value)
    elif name != "frame" and name not in _textual_variables():
        raise ThemeError(f"unknown variable '{name}'; chatkv's are {', '.join(OWN_VARIABLES)}")
    elif name.endswith("-style"):
        if bad := set(value.split()) - VALID_STYLE_FLAGS:
            raise ThemeError(f"'{name}' has no style {sorted(bad)[0]!r}")
    else:
        colour, _, percent = value.strip().partition(" ")
        if colour != "auto":
            _check_colour(name, colour)
        if percent and not _PERCENT.fullmatch(percent):
            raise ThemeError(f"'{name}' is not a colour: {value!r}")


@cache
def _textual_variables() -> set[str]:
    """Names of the variables Textual's own style sheets use."""
    example = BUILTIN_THEMES["textual-dark"].to_color_system().generate()
    return set(example).union(*(theme.variables for theme in BUILTIN_THEMES.values()))
