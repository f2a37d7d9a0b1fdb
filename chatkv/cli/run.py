"""``chatkv run``: check every option, then open the chat."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chatkv import children
from chatkv.cli.defaults import from_file, naming_the_file, settings_of
from chatkv.cli.models import check_model
from chatkv.cli.options import APP, SAMPLING, AppOptions, Group, takes
from chatkv.cli.surroundings import is_terminal, log_to_file, tidy_folders, unkept
from chatkv.engine.config import EngineConfig
from chatkv.errors import UsageError
from chatkv.native.choice import chosen as check_native
from chatkv.sampling import SamplingParams
from chatkv.schema import expanded
from chatkv.web import talks_to_browser


@takes(config=Group(EngineConfig), sampling=SAMPLING, app=APP)
def run(
    context: typer.Context,
    config: EngineConfig,
    sampling: SamplingParams,
    app: AppOptions,
    tour: Annotated[bool, typer.Option("--tour", help="Begin with a short look around.")] = False,
    record_screen: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg", help="Record the screen; the film is written on quitting.", dir_okay=False
        ),
    ] = None,
    web: Annotated[
        bool,
        typer.Option(
            "--web", help="Show it in a browser instead; prints the address.", rich_help_panel="Browser"
        ),
    ] = False,
) -> None:
    """Open the chat, with the radix tree and the block table beside it."""
    from chatkv.chat.store import SessionStore
    from chatkv.paths import data_dir

    check_native()
    with naming_the_file(context, "model"):
        check_model(config.model)
    typed = [name for name in ("web_host", "web_port") if not from_file(context, name)]
    if any(context.params[name] is not None for name in typed) and not web:
        raise UsageError("--web-host and --web-port need --web")
    in_browser = talks_to_browser()
    if record_screen is not None:
        if web or in_browser:
            raise UsageError("--record-screen records a terminal: it does not go with --web")
        from chatkv.tui.recording.recorder import check_target

        record_screen = check_target(record_screen)
    if not web and not in_browser and not is_terminal():
        raise UsageError(
            "chatkv run needs a terminal as stdin, stdout and stderr; without one: --web, or chatkv bench"
        )
    folder = expanded(app.sessions or data_dir() / "sessions").absolute()
    store = SessionStore(folder, unkept(folder, app.save, asked_for=app.sessions is not None))

    if web and not in_browser:
        from chatkv.web.serve import serve

        # The app runs as this very command; its driver tells it that it is in the browser.
        raise typer.Exit(serve(children.same_command(), app.web_host or "127.0.0.1", app.web_port or 0))

    tidy_folders(folder)
    log_to_file()
    from chatkv.tui.app import run as open_chat

    raise typer.Exit(
        open_chat(
            config,
            sampling,
            store,
            app.theme,
            tour=tour,
            keymap=settings_of(context).keys,
            record=record_screen,
        )
    )
