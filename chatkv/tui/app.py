"""The terminal app: ``ChatkvApp`` and ``run``. Importing it imports Textual, never torch."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.command import Provider
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Event, InputEvent
from textual.screen import Screen

from chatkv.chat.presence import Presence
from chatkv.chat.store import SessionStore
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import EngineMessage, Sampling
from chatkv.errors import ChatkvError
from chatkv.files import private_folder, write_whole
from chatkv.paths import data_dir
from chatkv.text import one_line
from chatkv.tui.chat.prompt import Prompt
from chatkv.tui.command_actions import CommandsApp
from chatkv.tui.dialogs.help import Help
from chatkv.tui.ended import Ended
from chatkv.tui.engine_port import EnginePort
from chatkv.tui.garbage import Garbage
from chatkv.tui.keys.current import Keymap, for_browsers
from chatkv.tui.layout import Arrangement
from chatkv.tui.palette import Everything
from chatkv.tui.remembered import Remembered
from chatkv.tui.sessions.around import Around
from chatkv.tui.sessions.book import SessionBook
from chatkv.tui.spine import LOOK_S
from chatkv.tui.terminal_driver import TerminalDriver
from chatkv.tui.too_small import TooSmall
from chatkv.web import talks_to_browser

if TYPE_CHECKING:
    from chatkv.tui.recording.recorder import Recorder

TOURED = "toured"
"""Remembered: the tour has been shown."""
HELP = "help"
"""The screen of all keys, which is kept."""
PREPARE_S = 1.0
"""After the start, when nobody waits for it any more."""
CLOSE_S = 0.3
"""How long quitting waits for the engine's thread to end its step."""


class ChatkvApp(CommandsApp):
    """The whole app: the palette, pictures, the tour, quitting."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Everything}
    SCREENS: ClassVar[dict[str, Callable[[], Screen[Any]]]] = {HELP: Help}
    first_run = False
    """Nobody has seen the tour yet: it begins by itself, if a person is looking."""
    tour_wanted = False
    """It was asked for."""
    recorder: Recorder | None = None
    ended: Ended | None = None
    garbage: Garbage | None = None

    def get_driver_class(self) -> type[Driver]:
        """A browser and tests have their own."""
        driver = super().get_driver_class()
        return TerminalDriver if driver is LinuxDriver else driver

    async def _begin(self) -> None:
        await super()._begin()
        self.set_timer(PREPARE_S, self._prepare)
        self.set_interval(LOOK_S, self._look_for_garbage)
        if self.recorder is not None:
            self.main.prompt.cursor_blink = False  # else a screen where nothing happens has frames, too
            self.recorder.start()
            self.say(f"recording the screen; quitting writes {self.recorder.path}")
        if self.tour_wanted or (self.first_run and not self.is_headless):
            self.action_tour()
        if self.ended is not None and self.ended.by:
            await self.action_quit()

    async def on_event(self, event: Event) -> None:
        """See the base class."""
        if self.garbage is not None and isinstance(event, InputEvent):
            self.garbage.active()
        await super().on_event(event)

    def hear_all(self) -> None:
        """See the base class; what has been loaded stays."""
        loaded = self.desk.ready
        super().hear_all()
        if self.garbage is not None and self.desk.ready not in (loaded, None):
            self.garbage.settle()

    def _look_for_garbage(self) -> None:
        if self.garbage is not None:
            if self.book.running:
                self.garbage.active()
            self.garbage.look()

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

    def action_restart_engine(self) -> None:
        """Start the engine again where it is over; sessions stay."""
        if not self.desk.failed:
            self.report(
                "the engine runs: there is nothing to start again"
                if self.desk.ready
                else "the engine is still starting"
            )
            return
        if self.garbage is not None:
            self.garbage.unsettle()  # before another model is loaded
        self.restart_engine()
        self.say("starting the engine again: what you ask now is answered when it is ready")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What nobody sees does not act. A key that types in the prompt is not offered there."""
        if isinstance(self.screen, TooSmall):
            return action == "quit"
        return not (action == "export" and isinstance(self.focused, Prompt))

    def action_help(self) -> None:
        """All keys, over whatever is open; again: away."""
        if isinstance(self.screen, Help):
            self.screen.dismiss(None)
        else:
            self.push_screen(HELP)

    def _prepare(self) -> None:
        """While nobody waits: what is slow when it opens for the first time."""
        if self.is_screen_installed(HELP):  # not any more where the app is ending
            self._get_screen(HELP)

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

    def action_save_screen(self) -> None:
        """The screen as it is, as SVG."""
        from chatkv.tui.recording.recorder import still

        path = self.pictures / f"{time.strftime('%Y%m%d-%H%M%S')}-screen.svg"
        try:
            private_folder(self.pictures)
            write_whole(path, still(self), private=True)
        except OSError as error:
            self.report(f"can't save the screen: {error.strerror or error}", "error")
            return
        self.say(f"saved {path}")

    async def action_quit(self) -> None:
        """At once: what has come of running answers is kept, and what was typed and not sent."""
        if self.recorder is not None:
            self.recorder.look(last=True)
        self.hear_all()
        self.book.keep_unfinished()
        self.keep_drafts()
        self.exit(return_code=1 if self.desk.failed else 0)


def run(
    config: EngineConfig,
    sampling: Sampling,
    store: SessionStore,
    theme: str | None = None,
    *,
    tour: bool = False,
    keymap: Keymap | None = None,
    record: Path | None = None,
) -> int:
    """Open the chat; returns the exit code when the person quits. ``record``: an SVG file for the screen.

    The CLI has checked the options, the theme, the terminal and whether ``store`` can be written to.
    """

    def engine(listener: Callable[[EngineMessage], None]) -> EnginePort:
        from chatkv.engine.thread import Engine

        return Engine(config, listener)

    remembered = Remembered(data_dir() / "screen.json")
    app = ChatkvApp(
        engine,
        store,
        sampling=sampling,
        theme=theme,
        pictures=data_dir() / "snapshots",
        remembered=remembered,
        keymap=for_browsers(keymap or {}) if talks_to_browser() else keymap,
    )
    app.tour_wanted = tour
    app.first_run = not remembered.get(TOURED, False)
    if record is not None:
        from chatkv.tui.recording.recorder import Recorder

        app.recorder = Recorder(app, record, app.pictures)
    if not store.unkept:
        app.around = Around(app.book, Presence(store.folder))
    app.ended = Ended(app)
    app.garbage = Garbage()
    try:
        app.run()
    finally:
        app.garbage.close()
        app.around.close()
        kept = _rescue(app.book, store.folder)
        if app.recorder is not None:
            _tell(app.recorder.save())
    code = app.return_code or (0 if kept else 1)
    if app.desk.failed:
        # The reason stood on a screen that is gone now.
        _tell(app.desk.failed)
    app.desk.close(CLOSE_S)  # a step that takes longer ends with the process (``cli.outcome.leave``)
    return 128 + app.ended.by if app.ended.by else code


def _rescue(book: SessionBook, folder: Path) -> bool:
    """What could not be saved goes where there may be room; False where it had to."""
    book.look_once_more()
    if not book.unsaved or book.save_again():
        return True
    try:
        place = Path(tempfile.mkdtemp(prefix="chatkv-unsaved-"))
        count = book.save_elsewhere(place)
    except OSError as error:
        count, why = len(book.unsaved), (error.strerror or str(error)).lower()
        _tell(f"{count} session{'s' * (count > 1)} could not be saved, not even elsewhere: {why}")
        return False
    what = f"{count} session{'s' * (count > 1)} could not be saved in {folder}"
    _tell(f"{what}: all of what was said is in {place}; chatkv run --sessions {place} opens it")
    return False


def _tell(line: str) -> None:
    with suppress(OSError):  # a terminal that is gone
        print(f"chatkv: {one_line(line, 2000)}", file=sys.stderr, flush=True)
