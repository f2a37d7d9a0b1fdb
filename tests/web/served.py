"""A server on a free port of this machine, and a browser of a kind."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from chatkv.web.server import GUARD, make_app
from chatkv.web.stage import Stage

FAKE = str(Path(__file__).with_name("fake_app.py"))


class Tab:
    """One websocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, *message: Any) -> None:
        await self.socket.send_str(json.dumps(message))

    async def type(self, text: str) -> None:
        await self.send("stdin", text)

    async def hear(self) -> Any:
        """The next thing the app draws or the server says."""
        message = await self.socket.receive(timeout=180)
        if message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED):
            return f"closed {message.data}" + (f" {message.extra}" if message.extra else "")
        return json.loads(message.data)


class Served:
    """The server under test."""

    def __init__(self, stage: Stage, runner: web.AppRunner, session: aiohttp.ClientSession) -> None:
        self.stage = stage
        self.runner = runner
        self.token = runner.app[GUARD].token
        self.port: int = runner.addresses[0][1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.session = session

    async def end(self) -> None:
        """As ctrl+c does."""
        await self.stage.end()
        await self.runner.cleanup()

    async def get(self, path: str, **headers: str) -> aiohttp.ClientResponse:
        response = await self.session.get(self.origin + path, headers=headers)
        await response.read()
        return response

    async def log_in(self) -> None:
        """Open the page with the token; the cookie stays."""
        assert (await self.get(f"/?token={self.token}")).status == 200

    async def open(self, size: str = "?width=100&height=30", **headers: str) -> Tab:
        """Connect as the page does."""
        headers = {"Origin": self.origin} | headers
        return Tab(await self.session.ws_connect(f"{self.origin}/ws{size}", headers=headers, max_msg_size=0))


@asynccontextmanager
async def serving(*arguments: str, command: list[str] | None = None) -> AsyncIterator[Served]:
    """A server whose app is the fake one, started with ``arguments``."""
    stage = Stage(command or [sys.executable, "-S", "-E", FAKE, *arguments])
    app = make_app(stage, "127.0.0.1")
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    jar = aiohttp.CookieJar(unsafe=True)  # it is an address, not a name
    try:
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            yield Served(stage, runner, session)
    finally:
        await stage.end()
        await runner.cleanup()
