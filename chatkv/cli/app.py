"""The command line's commands."""

from __future__ import annotations

from typing import Annotated

import typer

from chatkv import __version__
from chatkv.cli.bench import bench
from chatkv.cli.config import config
from chatkv.cli.doctor import doctor
from chatkv.cli.export import export
from chatkv.cli.listing import themes
from chatkv.cli.models import fetch, models
from chatkv.cli.run import run
from chatkv.cli.sessions import app as sessions

app = typer.Typer(
    # Errors are told in one place, cli/outcome.py.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"chatkv {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def chatkv(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A terminal chat that shows its KV cache, live: the radix tree of prefixes and the block table."""
    if context.invoked_subcommand is None:
        print(context.get_help())


for command in (run, models, fetch, themes, export, doctor, config):
    app.command()(command)
app.add_typer(sessions, name="sessions")
app.add_typer(bench, name="bench")
