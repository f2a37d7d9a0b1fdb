"""How the app talks to ``chatkv run --web``: packets on its standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from functools import partial
from typing import Any

from textual import events
from textual.app import App
from textual.drivers import web_driver
from textual.geometry import Size

from chatkv.tui.pastes import PasteParser


class BrowserDriver(web_driver.WebDriver):
    """Textual's, whose screen may be left and come back to, and which never loses what was said."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        vars(web_driver)["XTermParser"] = PasteParser
        # Packets have the output for themselves: what anything else prints would break them.
        self.fileno = os.dup(1)
        self._write = partial(os.write, self.fileno)
        if sys.__stderr__ is not None:
            os.dup2(2, 1)

    def start_application_mode(self) -> None:
        """Begin to draw."""
        super().start_application_mode()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._quit)
        # Textual's begins without focus, and the page's word that it has it may come before that.
        self._app.call_later(self._app.post_message, events.AppFocus())

    def run_input_thread(self) -> None:
        """Read packets until there are no more; then nobody can come back to this screen."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._quit()

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        """Take in a packet that is no key."""
        if packet_type == "quit":
            self._quit()
        elif packet_type == "attach":
            # On the app's thread: two threads that write would write into each other's packets.
            self._app.call_later(self._attach, payload["width"], payload["height"])
        else:
            super().on_meta(packet_type, payload)

    def _quit(self) -> None:
        # Textual would end the app at once; chatkv first keeps what has come of running answers.
        self._app.call_later(self._app.action_quit)

    def _attach(self, width: int, height: int) -> None:
        """Somebody else looks on, from an empty terminal."""
        self.write_meta({"type": "attached"})
        self.write("\x1b[?1049h\x1b[?25l")
        self._enable_mouse_support()
        self._enable_bracketed_paste()
        self._size = (width, height)
        size = Size(width, height)
        self._app.post_message(events.Resize(size, size))
        self._app.refresh(layout=True)
