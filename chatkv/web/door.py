"""Who is let in, and for how long they may say nothing: connections have a limit, and so has their silence.

aiohttp waits for ever for the first request of a connection, and asyncio's own accepting writes a traceback
for each connection that it has no descriptor for.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import sys
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

MOST = 64
"""Connections at once; a page needs about seven, and one of them stays."""
SILENCE_S = 10.0
"""How long a connection may take until its next request is there."""
PAUSE_S = 1.0
"""Until somebody is let in again where there are no descriptors left."""
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Protocol = Any
"""aiohttp's ``RequestHandler``, which it does not export."""


class Door:
    """Accepts connections of ``listener`` for ``server``. One event loop.

    Where there are ``MOST``, or no descriptors are left, the one that has been silent for longest makes room;
    where all are being answered, the new one is closed.
    """

    def __init__(self, most: int | None = None, silence_s: float = SILENCE_S) -> None:
        """``most``: ``MOST`` where None, or less where this process may open few files."""
        self._most, self._silence_s = most or _most(), silence_s
        self._listener: socket.socket | None = None
        self._server: web.Server | None = None
        self._silent: dict[Protocol, asyncio.TimerHandle] = {}
        """Connections that no request is being answered on, the longest silent first."""
        self._arriving: set[asyncio.Task[None]] = set()
        self._told = False

    def open(self, listener: socket.socket, server: web.Server) -> None:
        """Let connections in from now on. ``listener`` does not block."""
        self._listener, self._server = listener, server
        asyncio.get_running_loop().add_reader(listener, self._accept)

    def close(self) -> None:
        """Let nobody in any more."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for timer in self._silent.values():
            timer.cancel()
        self._silent.clear()

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A request is there: its connection is silent again when it has been answered."""
        protocol: Final = request.protocol
        if (timer := self._silent.pop(protocol, None)) is not None:
            timer.cancel()
        try:
            return await handler(request)
        finally:
            self._wait_for(protocol)

    @property
    def connections(self) -> int:
        """How many there are."""
        known = 0 if self._server is None else len(self._server.connections)
        return known + len(self._arriving)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in _SCARCE:
                raise
            if not self._make_room():
                self._pause(error)
            return
        self._told = False
        if self.connections >= self._most and not self._make_room():
            connection.close()
            return
        connection.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._take(connection))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _take(self, connection: socket.socket) -> None:
        assert self._server is not None
        try:
            _, protocol = await asyncio.get_running_loop().connect_accepted_socket(self._server, connection)
        except OSError:
            connection.close()
            return
        self._wait_for(protocol)

    def _wait_for(self, protocol: Protocol) -> None:
        if self._listener is not None and protocol.transport is not None:
            loop = asyncio.get_running_loop()
            self._silent[protocol] = loop.call_later(self._silence_s, self._end, protocol)

    def _end(self, protocol: Protocol) -> None:
        if (timer := self._silent.pop(protocol, None)) is not None:
            timer.cancel()
        protocol.force_close()

    def _make_room(self) -> bool:
        for protocol in list(self._silent):
            there = protocol.transport is not None
            self._end(protocol)
            if there:
                return True
        return False

    def _pause(self, error: OSError) -> None:
        """Nobody can be let in now: try again later, and say so once."""
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        loop.call_later(PAUSE_S, self._go_on)
        if not self._told:
            self._told = True
            print(f"chatkv: no browser can be let in now: {error.strerror}; trying again", file=sys.stderr)

    def _go_on(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)


def _most() -> int:
    """Return how many connections leave descriptors for the app, its page's files and what it keeps."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if limit == resource.RLIM_INFINITY else min(MOST, max(8, limit // 4))


def quietly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Take what goes wrong on the loop: a line, not a traceback for each connection that breaks."""
    error = context.get("exception")
    if isinstance(error, ConnectionError | TimeoutError):
        return
    what = f"{type(error).__name__}: {error}" if error is not None else context.get("message", "")
    print(f"chatkv: a fault in the web server: {what}"[:300], file=sys.stderr)
