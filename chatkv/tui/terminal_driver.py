"""How the app talks to a terminal, also to one that goes away while it runs."""

from __future__ import annotations

import os
import selectors
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import IO, Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from chatkv.tui.background import ASK, Answers
from chatkv.tui.pastes import PasteParser
from chatkv.tui.themed import ThemedApp


class _Lasting:
    """A file whose other end may go: what is written then is lost, and whoever writes goes on.

    Textual's writing thread would end with the terminal, and the app wait for it for ever.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # the latter: it has been closed
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class TerminalDriver(LinuxDriver):
    """Textual's, that quits when the terminal is gone, and reads whatever bytes come."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = _Lasting(self._file)  # type: ignore[assignment, arg-type]
        self._answers = Answers()

    def start_application_mode(self) -> None:
        """See the base class. A themed app that goes by the background hears of it before its first frame."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if isinstance(self._app, ThemedApp) and self._app.goes_by_background:
            self.write(ASK)
            self.flush()

    def run_input_thread(self) -> None:
        """Read keys and pastes until the app ends, or the terminal does."""
        parser = PasteParser(self._debug)
        # A byte that is no UTF-8 (another charset, a noisy line) is one odd character.
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(0.1):
                    try:
                        data = os.read(self.fileno, 4096)
                    except OSError:
                        data = b""
                    if not data:
                        self._quit()
                        return
                    if text := self._heard(decode(data)):  # a character may come in two reads
                        for message in parser.feed(text):
                            self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)

    def _quit(self) -> None:
        ended = getattr(self._app, "ended", None)
        if ended is not None:
            ended.terminal_is_gone()
        else:
            self._app.call_later(self._app.action_quit)

    def _heard(self, text: str) -> str:
        before = self._answers.light
        text = self._answers.without(text)
        light = self._answers.light
        if light is not None and light is not before and isinstance(self._app, ThemedApp):
            self._app.call_later(self._app.see_background, light)
        return text
