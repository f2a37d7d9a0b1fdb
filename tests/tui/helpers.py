"""What the app's tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fake_engine import FakeEngine, Script, echo

from chatkv.chat.store import SessionStore
from chatkv.engine.messages import EngineMessage
from chatkv.tui.app import ChatkvApp


class Bench:
    """An app over a store in ``folder`` and a fake engine."""

    def __init__(self, folder: Path, *, script: Script = echo, **engine: int) -> None:
        self.engine: FakeEngine

        def make(listener: Callable[[EngineMessage], None]) -> FakeEngine:
            self.engine = FakeEngine(listener, script=script, **engine)
            return self.engine

        self.folder = folder
        self.app = ChatkvApp(make, SessionStore(folder / "sessions"), pictures=folder / "snapshots")
