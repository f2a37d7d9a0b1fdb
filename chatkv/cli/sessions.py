"""``chatkv sessions``: what is kept, and conversations to and from other programs."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chatkv.cli import choices, completion
from chatkv.errors import ChatkvError

if TYPE_CHECKING:
    from chatkv.chat.store import SessionStore
    from chatkv.chat.tree import Conversation

app = typer.Typer(help="List the sessions; export and import conversations.")

Folder = Annotated[
    Path | None,
    typer.Option(
        "--sessions", metavar="DIR", help="The folder; default: your data folder.", callback=choices.folder
    ),
]


@app.callback(invoke_without_command=True)
def listing(
    context: typer.Context,
    folder: Folder = None,
    examples: Annotated[
        bool, typer.Option("--examples", help="The example sessions that come with chatkv.")
    ] = False,
) -> None:
    """List the sessions, and session files with faults; or export and import conversations."""
    context.obj = folder
    if context.invoked_subcommand is not None:
        return
    from chatkv.cli.output import print_table

    store = _store(folder)
    if folder is not None and not examples and not store.folder.is_dir():
        raise ChatkvError(f"there is no folder {store.folder}; a chat with --sessions makes it")
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


@app.command("export")
def export(
    context: typer.Context,
    session: Annotated[
        str,
        typer.Argument(
            help="Its id (or the beginning of it), or its whole name.", autocompletion=completion.sessions
        ),
    ],
    format: Annotated[
        str | None,
        choices.choice(("md", "json"), "Default: by the output file's name, else md."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: standard output.")
    ] = None,
    folder: Folder = None,
) -> None:
    """Write a conversation as Markdown or as OpenAI-style JSON."""
    from chatkv.chat import exchange

    by_name = "json" if output is not None and output.suffix.lower() == ".json" else "md"
    conv = _find(_store(folder or context.obj), session)
    if output is None:
        print(exchange.export(conv, format or by_name), end="")
    else:
        exchange.export_to(conv, format or by_name, output)
        print(f"wrote {output}")


@app.command("import")
def import_(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            help="JSON or JSONL: OpenAI, Anthropic, ShareGPT; exports of ChatGPT, Claude, Open WebUI."
        ),
    ],
    folder: Folder = None,
) -> None:
    """Make sessions of the conversations in a file."""
    from chatkv.chat import exchange

    imported = exchange.read_chats(file, pipe=True)
    store = _store(folder or context.obj)
    for conv in imported.conversations:
        store.adopt(conv, created=conv.created)
    print(f"imported {exchange.in_words(imported)}")


def _store(folder: Path | None) -> SessionStore:
    from chatkv.chat.store import SessionStore
    from chatkv.paths import data_dir

    return SessionStore(Path(os.path.expanduser(folder or data_dir() / "sessions")).absolute())


def _find(store: SessionStore, wanted: str) -> Conversation:
    from chatkv.text import one_line

    found, _ = store.load_all()
    exact = [conv for conv in found if wanted in (conv.id, conv.name)]
    near = exact or [conv for conv in found if wanted and conv.id.startswith(wanted)]
    if len(near) == 1:
        return near[0]
    what = one_line(wanted, 60)
    if near:
        ids = ", ".join(conv.id for conv in near[:5])
        raise ChatkvError(f"'{what}' names {len(near)} sessions: give an id ({ids})")
    raise ChatkvError(f"there is no session '{what}' in {store.folder}; chatkv sessions lists them")


def _local(moment: datetime) -> datetime:
    try:
        return moment.astimezone()
    except (OverflowError, ValueError):  # at either end of the calendar: it stays UTC
        return moment
