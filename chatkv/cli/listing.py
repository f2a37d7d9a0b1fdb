"""``chatkv themes``: what there is, and what is wrong with it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.theme import Theme


def themes() -> None:
    """List the colour themes for --theme, and theme files with faults."""
    from textual.theme import BUILTIN_THEMES

    from chatkv.cli.output import print_table
    from chatkv.paths import config_dir
    from chatkv.tui.themes import load_themes

    own, problems = load_themes()
    rows = [(theme.name, _kind(theme), "chatkv") for theme in own]
    rows += [(name, _kind(theme), "Textual") for name, theme in sorted(BUILTIN_THEMES.items())]
    print_table(("theme", "kind", "from"), rows)
    print(f"\nYour own themes: {config_dir() / 'themes'}/*.toml")
    for problem in problems:
        print(problem, file=sys.stderr)


def _kind(theme: Theme) -> str:
    return "terminal" if theme.ansi else "dark" if theme.dark else "light"
