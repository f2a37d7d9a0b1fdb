"""Ended from outside: ``kill``, the terminal's window closed, an interrupt that is no key."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Final

from textual.app import App

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Ended:
    """Takes the signals that end chatkv: at the first the app quits, as by key; further ones change nothing.

    A closed window says it several times (the terminal, the shell, the system), in no set order.
    """

    def __init__(self, app: App[Any]) -> None:
        self.by: signal.Signals | None = None
        """The one that came first. An app that is only beginning looks here."""
        self._app = app
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._take)

    def terminal_is_gone(self) -> None:
        """What was read has ended: the same as the signal, which may come later. Any thread."""
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup: it quits, and not by a signal
            self._app.call_later(self._app.action_quit)
        else:
            self._take(signal.SIGHUP, None)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.by is None:
            self.by = signal.Signals(number)
            if (loop := self._app._loop) is not None:
                loop.call_soon_threadsafe(self._app.call_later, self._app.action_quit)
