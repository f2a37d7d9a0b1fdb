"""Many connections that say nothing, and no descriptors left: who looks at the chat notices neither."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from chatkv.web.door import Door
from tests.web.test_serve import start

HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1"


@asynccontextmanager
async def behind(door: Door) -> AsyncIterator[tuple[web.AppRunner, int]]:
    """A page that answers at once, and one that waits, behind ``door``."""
    waiting = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        await waiting.wait()
        return web.Response(text="late")

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="here")

    app = web.Application(middlewares=[door.watch])
    app.router.add_get("/", page)
    app.router.add_get("/slow", slow)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    assert runner.server is not None
    door.open(listener, runner.server)
    try:
        yield runner, listener.getsockname()[1]
    finally:
        waiting.set()
        door.close()
        await runner.cleanup()


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HALF)
    return reader, writer


async def get(port: int, path: str = "/") -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return await answer.text()


async def test_silent_connections_are_bounded_and_make_room() -> None:
    door = Door(most=8, silence_s=600)
    async with behind(door) as (_, port):
        crowd = [await connect(port) for _ in range(100)]
        assert await get(port) == "here"
        assert door.connections <= 8
        # The first to come were the first to go.
        assert await crowd[0][0].read() == b""
        for _, writer in crowd:
            writer.close()


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with behind(Door(silence_s=0.05)) as (_, port):
        reader, writer = await connect(port)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        # Also after a request: only what is being answered stays.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HALF + b"\r\n\r\n" + HALF)
        assert b"here" in await asyncio.wait_for(reader.read(), 60)
        writer.close()


async def test_who_is_being_answered_is_not_sent_away() -> None:
    door = Door(most=2, silence_s=0.05)
    async with behind(door) as (_, port):
        waiting = [asyncio.create_task(get(port, "/slow")) for _ in range(2)]
        while door.connections < 2 or door._silent:
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        assert not any(task.done() for task in waiting)
    assert [await task for task in waiting] == ["late", "late"]


def test_at_the_limit_of_descriptors_it_goes_on_and_says_little() -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))

    process, origin, address = start(preexec_fn=few)
    port = int(origin.rpartition(":")[2])
    crowd = []
    try:
        for _ in range(300):
            one = socket.create_connection(("127.0.0.1", port))
            one.sendall(HALF)
            crowd.append(one)
        asyncio.run(_page(address))
        for one in crowd:
            one.close()
        asyncio.run(_page(address))
    finally:
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert said.count("\n") < 5, said
    assert "Traceback" not in said


async def _page(address: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        assert answer.status == 200
