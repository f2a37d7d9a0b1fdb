"""``chatkv themes``: what there is, and what is wrong with it."""

from __future__ import annotations

import sys


def themes() -> None:
    """List the colour themes for --theme, and theme files with faults."""
    from textual.theme import BUILTIN_THEMES

    from chatkv.cli.output import print_table
    from chatkv.paths import config_dir
    from chatkv.tui.themes import load_themes

    own, problems = load_themes()
    rows = [(theme.name, "dark" if theme.dark else "light", "chatkv") for theme in own]
    rows += [(name, "dark" if t.dark else "light", "Textual") for name, t in sorted(BUILTIN_THEMES.items())]
    print_table(("theme", "kind", "from"), rows)
    print(f"\nYour own themes: {config_dir() / 'themes'}/*.toml")
    for problem in problems:
        print(problem, file=sys.stderr)
