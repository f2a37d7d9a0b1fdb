"""What the app's tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import patch

from textual.notifications import Notification
from textual.pilot import Pilot

from chatkv.chat.store import SessionStore
from chatkv.engine.messages import EngineMessage
from chatkv.tui.app import ChatkvApp
from chatkv.tui.keys.current import Keymap
from chatkv.tui.remembered import Remembered
from chatkv.tui.sessions.session import Session
from chatkv.tui.themes import DEFAULT_THEME
from tests.tui.fake_engine import FakeEngine, Script, echo


@asynccontextmanager
async def lasting_words() -> AsyncIterator[None]:
    """Words stay until the test is over, however long the machine takes."""
    with (
        patch.object(Notification, "time_left", property(lambda self: 3600.0)),
        patch.object(Notification, "has_expired", property(lambda self: False)),
    ):
        yield


class Bench:
    """An app over a store in ``folder`` and a fake engine."""

    def __init__(
        self,
        folder: Path,
        *,
        script: Script = echo,
        theme: str | None = DEFAULT_THEME,
        remembered: Remembered | None = None,
        keymap: Keymap | None = None,
        store: SessionStore | None = None,
        **engine: int,
    ) -> None:
        self.engine: FakeEngine
        self.pilot: Pilot[None]
        self.folder = folder

        def make(listener: Callable[[EngineMessage], None]) -> FakeEngine:
            self.engine = FakeEngine(listener, script=script, **engine)
            return self.engine

        self.app = ChatkvApp(
            make,
            store or SessionStore(folder / "sessions"),
            theme=theme,
            pictures=folder / "snapshots",
            remembered=remembered,
            keymap=keymap,
        )

    @asynccontextmanager
    async def run(
        self, size: tuple[int, int] = (120, 36), ready: bool = True, toasts: bool = False
    ) -> AsyncIterator[Pilot[None]]:
        async with lasting_words(), self.app.run_test(size=size, notifications=toasts) as pilot:
            self.pilot = pilot
            await pilot.pause()
            while not hasattr(self, "engine"):  # made once the screen is up: later on a busy machine
                await pilot.pause(0.01)
            if ready:
                self.engine.ready()
            await self.settle()
            yield pilot

    def hold_timers(self) -> None:
        """From now on nothing happens by itself: on a slow machine it would happen in between."""
        for pump in (self.app, *self.app.screen_stack, *self.app.main.walk_children()):
            for timer in list(pump._timers):
                timer.pause()

    async def settle(self) -> None:
        """Until everything said is on the screen."""
        for _ in range(3):
            await self.pilot.pause()
            self.app.main.changed()
            await self.app.main.draw_chat()
            self.app.main.draw_cache()
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def type(self, text: str) -> None:
        self.app.main.prompt.load(text)
        await self.press("enter")

    async def ask(self, text: str, steps: int | None = None) -> None:
        """Send ``text`` and let the engine make ``steps`` (None: all of them)."""
        await self.type(text)
        if steps is None:
            self.engine.finish_all()
        else:
            self.engine.step(steps)
        await self.settle()

    @property
    def session(self) -> Session:
        return self.app.book.current

    @property
    def screen_text(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    @property
    def said(self) -> list[str]:
        """The notifications, oldest first."""
        return [n.message for n in self.app._notifications]

    def texts(self) -> list[tuple[str, str]]:
        """Role and text of what the current session's conversation holds."""
        return [(m.role, m.text) for m in self.session.conversation.path()]

    def on_disk(self) -> list[list[tuple[str, str]]]:
        """The same of every session, as another process would load it."""
        conversations, _ = SessionStore(self.folder / "sessions").load_all()
        return [[(m.role, m.text) for m in c.path()] for c in conversations]
