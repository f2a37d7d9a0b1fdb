"""``chatkv themes`` and ``chatkv sessions``: what there is, and what is wrong with it."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer


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


def sessions(
    folder: Annotated[
        Path | None, typer.Option("--sessions", metavar="DIR", help="The folder; default: your data folder.")
    ] = None,
    examples: Annotated[
        bool, typer.Option("--examples", help="The example sessions that come with chatkv.")
    ] = False,
) -> None:
    """List the sessions, and session files with faults."""
    from chatkv.chat.store import SessionStore
    from chatkv.cli.output import print_table
    from chatkv.paths import data_dir

    store = SessionStore(folder or data_dir() / "sessions")
    found, problems = (store.examples(), []) if examples else store.load_all()
    rows = [
        (conv.id, conv.name, str(len(conv.messages)), f"{_local(conv.created):%Y-%m-%d %H:%M}")
        for conv in found
    ]
    print_table(("id", "name", ">messages", "created"), rows)
    if not found:
        print(f"No sessions in {store.folder}; chatkv run starts one.")
    for problem in problems:
        print(problem, file=sys.stderr)


def _local(moment: datetime) -> datetime:
    try:
        return moment.astimezone()
    except (OverflowError, ValueError):  # at either end of the calendar: it stays UTC
        return moment
