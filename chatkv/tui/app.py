"""The terminal app: ``ChatkvApp`` and ``run``. Importing it imports Textual, never torch."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.screen import Screen

from chatkv.chat.store import SessionStore
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import EngineMessage, Ready, Sampling
from chatkv.errors import ChatkvError
from chatkv.files import write_whole
from chatkv.paths import data_dir
from chatkv.text import one_line
from chatkv.tui.chat.prompt import Prompt
from chatkv.tui.command_actions import CommandsApp
from chatkv.tui.dialogs.help import Help
from chatkv.tui.engine_port import EnginePort
from chatkv.tui.keys.current import Keymap, fill, hint
from chatkv.tui.layout import Arrangement
from chatkv.tui.remembered import Remembered

if TYPE_CHECKING:
    from chatkv.tui.recording.recorder import Recorder

TOURED = "toured"
"""Remembered: the tour has been shown."""
CLOSE_S = 0.3
"""How long quitting waits for the engine's thread to end its step."""


class ChatkvApp(CommandsApp):
    """The whole app: the palette, pictures, the tour, quitting."""

    first_run = False
    """Nobody has seen the tour yet: it begins by itself, if a person is looking."""
    tour_wanted = False
    """It was asked for."""
    recorder: Recorder | None = None

    async def _begin(self) -> None:
        await super()._begin()
        if self.recorder is not None:
            self.main.prompt.cursor_blink = False  # else a screen where nothing happens has frames, too
            self.recorder.start()
            self.say(f"recording the screen; quitting writes {self.recorder.path}")
        if self.tour_wanted or (self.first_run and not self.is_headless):
            self.action_tour()

    def action_stop_all(self) -> None:
        """Stop every answer."""
        count = self.desk.stop_all()
        self.say(f"stopping {count} answers" if count else "no answer is running")

    def action_clear_cache(self) -> None:
        """Forget every cached prefix."""
        if self.book.running:
            self.report("the cache can't be cleared while answers run; stop them first")
            return
        if self.desk.clear_cache():
            self.say("cache cleared")
        else:
            self.report(
                "there is no cache to clear: the model has failed"
                if self.desk.failed
                else "nothing to clear yet: the model is still loading"
            )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A key that types in the prompt is not offered there."""
        return not (action == "export" and isinstance(self.focused, Prompt))

    def action_help(self) -> None:
        """All keys, over whatever is open; again: away."""
        if isinstance(self.screen, Help):
            self.screen.dismiss(None)
        else:
            self.push_screen(Help())

    def action_tour(self) -> None:
        """A short look around."""
        from chatkv.tui.dialogs.tour import Tour  # seen once, as a rule

        if self.screen is self.main and self.main.arrangement is not Arrangement.TINY:
            self.remembered.set(TOURED, True)
            self.push_screen(Tour(self.main))

    def action_export(self) -> None:
        """The picture as files."""
        from chatkv.tui.pictures import export_picture  # the first frame does not wait for it

        try:
            paths = export_picture(self.desk, self.pictures)
        except (ChatkvError, OSError) as error:
            self.report(f"can't export the picture: {error}", "error")
            return
        self.say("exported " + " and ".join(str(path) for path in paths))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Everything, for the palette."""
        if screen is not self.main:
            return
        main = self.main
        commands: tuple[tuple[str, str, Callable[[], object]], ...] = (
            ("New session", "{new}", self.action_new),
            ("Sessions", "{sessions} · filter, open, rename, delete", self.action_sessions),
            ("Search all sessions", "{search} · what was said anywhere", self.action_search),
            ("Fork this session", "{fork} · at any message, with its cost", self.action_fork),
            (
                "Verify the last answer",
                "{chat.verify} in the chat · against a run without the cache",
                self.action_verify,
            ),
            ("Rename this session", "{rename}", self.action_rename),
            ("System prompt", "what the model is told before everything else", self.action_system),
            ("Delete this session", "asks first", self.action_delete),
            ("Undo delete", "bring back the session deleted last", self.action_undelete),
            ("Answer again", "{again}", self.action_regenerate),
            (
                "Three answers at once",
                "{chat.answers} in the chat · sampled over one prompt, whose cache they share",
                self.action_answers,
            ),
            ("Edit the last question", "{chat.edit} in the chat", self.action_edit),
            ("Copy the last answer", "{chat.copy} in the chat", self.action_copy_answer),
            ("Copy a code block", "{chat.copy_code} in the chat", self.action_copy_code),
            ("Sort the list of sessions", "{pane.sort} in the list", self.action_sort_sessions),
            ("Stop all answers", "in every session", self.action_stop_all),
            ("Clear the cache", "forget every cached prefix", self.action_clear_cache),
            ("Pause or go on with the picture", "{pane.pause} · the engine goes on", main.action_freeze),
            (
                "Captions",
                "{pane.captions} · what has just happened, or none",
                main.action_captions,
            ),
            ("Export the picture", "{pane.export} · JSON and SVG", self.action_export),
            ("Save the screen as SVG", "all of it, as it is now", self.action_save_screen),
            ("Zoom the pane", "{pane.zoom}", main.action_zoom),
            ("Panes", "{pane.list} · show and hide them", main.action_list_panes),
            ("Usual sizes of the panes", "{pane.usual_sizes}", main.action_usual_sizes),
            ("Usual panes", "sizes, places and what is hidden as at first", main.action_usual_panes),
            ("Theme", "choose the colours", self.action_change_theme),
            ("Keys", "{help} · all keys", self.action_help),
            ("Tour", "a short look around", self.action_tour),
            ("Quit", "{quit}", self.action_quit),
        )
        for title, help_text, action in commands:
            yield SystemCommand(title, fill(help_text), action)
        for row in main.pane_rows():
            title = f"{'Hide' if row.shown else 'Show'} pane: {row.title}"
            yield SystemCommand(title, "", lambda pane=row.pane: main.toggle(pane))
        for example in self.book.examples:
            yield SystemCommand(
                f"Open an example session: {one_line(example.name, 50)}",
                "a copy of it, as one of yours",
                lambda example=example: self.open_example(example),
            )
        for number, session in enumerate(self.book.sessions, 1):
            key = session.key
            yield SystemCommand(
                f"Go to {number} {one_line(session.name, 50)}",
                hint(f"go_{number}") if number < 10 else "",
                lambda key=key: self.switch_to(key),
                discover=False,
            )

    def action_save_screen(self) -> None:
        """The screen as it is, as SVG."""
        from chatkv.tui.recording.recorder import still

        path = self.pictures / f"{time.strftime('%Y%m%d-%H%M%S')}-screen.svg"
        try:
            self.pictures.mkdir(parents=True, exist_ok=True)
            write_whole(path, still(self))
        except OSError as error:
            self.report(f"can't save the screen: {error.strerror or error}", "error")
            return
        self.say(f"saved {path}")

    async def action_quit(self) -> None:
        """At once: what has come of running answers is kept."""
        self.hear_all()
        self.book.keep_unfinished()
        self.exit(return_code=1 if self.desk.failed else 0)


def run(
    config: EngineConfig,
    sampling: Sampling,
    store_folder: Path,
    theme: str | None = None,
    *,
    tour: bool = False,
    keymap: Keymap | None = None,
    record: Path | None = None,
) -> int:
    """Open the chat; returns the exit code when the person quits. ``record``: an SVG file for the screen.

    The CLI has checked the options, the theme and the terminal.
    """

    def engine(listener: Callable[[EngineMessage], None]) -> EnginePort:
        from chatkv.engine.thread import Engine

        def hear(said: EngineMessage) -> None:
            if isinstance(said, Ready):
                # What is loaded stays: looking it through for garbage stops engine and screen for 0.2 s.
                gc.freeze()
            listener(said)

        return Engine(config, hear)

    remembered = Remembered(data_dir() / "screen.json")
    app = ChatkvApp(
        engine,
        SessionStore(store_folder),
        sampling=sampling,
        theme=theme,
        pictures=data_dir() / "snapshots",
        remembered=remembered,
        keymap=keymap,
    )
    app.tour_wanted = tour
    app.first_run = not remembered.get(TOURED, False)
    if record is not None:
        from chatkv.tui.recording.recorder import Recorder

        app.recorder = Recorder(app, record, app.pictures)
    try:
        app.run()
    finally:
        if app.recorder is not None:
            print(f"chatkv: {one_line(app.recorder.save(), 2000)}", file=sys.stderr)
    code = app.return_code or 0
    if app.desk.failed:
        # The reason stood on a screen that is gone now.
        print(f"chatkv: {one_line(app.desk.failed, 2000)}", file=sys.stderr)
    if not app.desk.close(CLOSE_S):
        # An interpreter that ends while another thread is inside torch is aborted by it.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    return code
