"""Who looks at the app: one viewer at a time, and the one who came last."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

from chatkv.web.process import AppProcess

ENDED, TAKEN_OVER, GOING_AWAY = 4000, 4001, 1001
"""Why a viewer's connection is closed; page/chat.js has the words to the first two."""
STALL_S = 10.0
"""A viewer who takes nothing for so long is gone: the app must not wait for them."""

DRAIN_S = 1.0
"""How long what an app that is over has said is still listened to."""


class Viewer(Protocol):
    """What is used of aiohttp's websocket."""

    async def send_bytes(self, data: bytes) -> None:
        """Draw."""

    async def send_str(self, data: str) -> None:
        """Say something else, as JSON."""

    async def close(self, *, code: int, message: bytes) -> bool:
        """Say why, and no more."""


class Stage:
    """One app, however many tabs: two would load two models and write into each other's sessions.

    Who comes takes the screen over, so nobody is ever locked out by a tab that was left open somewhere.
    Who goes leaves the app running: answers go on, and a reload finds everything as it was.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: AppProcess | None = None
        self._ending = False
        """It has said that it is about to be over."""
        self._running: asyncio.Task[None] | None = None
        """Reads what the process says, until it is over."""
        self._viewer: Viewer | None = None
        self._attached = False
        """Whether what the process draws is meant for this viewer."""
        self._lock = asyncio.Lock()
        self._closing: set[asyncio.Task[bool]] = set()
        self._over = False

    async def enter(self, viewer: Viewer, width: int, height: int) -> None:
        """Show ``viewer`` the app, which is started if it does not run. Raises OSError where it can't be."""
        async with self._lock:
            self._close(TAKEN_OVER)
            if self._over:
                self._viewer = viewer
                self._close(GOING_AWAY)
                return
            process, running = self._process, self._running
            if process is not None and running is not None and self._ending:
                await process.end()  # it still keeps what it has to
                await running
            self._viewer, self._attached = viewer, self._process is None
            if self._process is None:
                self._process = await AppProcess.start(self._command, width, height)
                self._running = asyncio.create_task(self._run(self._process))
            else:
                await self._process.tell("attach", width=width, height=height)

    def leave(self, viewer: Viewer) -> None:
        """``viewer`` is gone."""
        if self._viewer is viewer:
            self._viewer, self._attached = None, False

    def process_of(self, viewer: Viewer) -> AppProcess | None:
        """Where what ``viewer`` types goes; None for one who is no longer, or not yet, the one."""
        return self._process if self._viewer is viewer else None

    async def end(self) -> None:
        """End the app, and show nobody anything any more."""
        async with self._lock:
            self._over = True
            self._close(GOING_AWAY)
            if self._process is not None:
                await self._process.end()
            if self._running is not None:
                await self._running
            await asyncio.gather(*self._closing, return_exceptions=True)

    def kill(self) -> None:
        """End the app without waiting for anything."""
        if self._process is not None:
            self._process.signal(signal.SIGKILL)

    async def _run(self, process: AppProcess) -> None:
        hearing = asyncio.create_task(self._hear(process))
        over = asyncio.create_task(process.wait())
        await asyncio.wait({hearing, over}, return_when=asyncio.FIRST_COMPLETED)
        self._ending = True
        # What it left running may hold its output open.
        await asyncio.wait({hearing}, timeout=DRAIN_S)
        hearing.cancel()
        await process.end()
        self._process, self._ending = None, False
        code = await over
        self._close(ENDED, "" if code == 0 else f"exit code {code}")

    async def _hear(self, process: AppProcess) -> None:
        async for kind, payload in process.packets():
            if kind == b"D":
                if self._attached:
                    await self._show(payload)
            elif kind == b"M":
                await self._take(json.loads(payload))

    async def _take(self, said: dict[str, object]) -> None:
        match said.get("type"):
            case "attached":
                self._attached = self._viewer is not None
            case "exit":
                self._ending = True
            case "open_url" if urlsplit(str(said["url"])).scheme in ("http", "https", "mailto"):
                # Others would run in the page (javascript:) or read the person's disk (file:).
                await self._show(json.dumps(["open_url", {"url": said["url"], "new_tab": True}]))

    async def _show(self, what: bytes | str) -> None:
        viewer = self._viewer
        if viewer is None:
            return
        try:
            async with asyncio.timeout(STALL_S):
                await (viewer.send_str(what) if isinstance(what, str) else viewer.send_bytes(what))
        except (OSError, TimeoutError):  # aiohttp's "closing transport" is a ConnectionResetError
            self.leave(viewer)

    def _close(self, code: int, why: str = "") -> None:
        """Say good-bye to the viewer, without waiting for them."""
        if self._viewer is not None:
            task = asyncio.create_task(self._viewer.close(code=code, message=why.encode()))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self._viewer, self._attached = None, False
