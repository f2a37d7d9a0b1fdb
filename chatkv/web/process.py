"""The app's process, and the packets to and from it (textual-serve's protocol)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Literal

from chatkv import children
from chatkv.web import DRIVER

PRELUDE = b"__GANGLION__\n"
MAX_PACKET = 64 << 20
QUIT_S = 4.0
"""How long the app may take to keep what it has to; then it is told to end, then it is ended."""
TERM_S = 1.0

Kind = Literal[b"D", b"M"]


class AppProcess:
    """One run of the app. It is a process group of its own, so that ctrl+c reaches only the server."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, command: Sequence[str], width: int, height: int) -> AppProcess:
        """Run ``command`` (no shell sees it) for a screen of ``width`` x ``height`` cells.

        Raises OSError where it can't be run.
        """
        environment = children.environment(
            TEXTUAL_DRIVER=DRIVER,
            TEXTUAL_COLOR_SYSTEM="truecolor",
            TERM="xterm-256color",  # whatever the server's own terminal is
            COLORTERM="truecolor",
            TERM_PROGRAM="textual",
            COLUMNS=str(width),
            ROWS=str(height),
        )
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True
            )
        )

    async def packets(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """What it says, as (kind, payload), until it says no more. Kinds: ``D`` drawing, ``M`` JSON."""
        output = self._process.stdout
        assert output is not None
        # An incomplete packet is the end of the process, a long line or packet no app of ours.
        with suppress(asyncio.IncompleteReadError, ValueError):
            while await output.readuntil(b"\n") != PRELUDE:
                pass
            while True:
                head = await output.readexactly(5)
                size = int.from_bytes(head[1:], "big")
                if size > MAX_PACKET:
                    return
                yield head[:1], await output.readexactly(size)

    async def send(self, text: str) -> None:
        """Hand over what was typed."""
        await self._send(b"D", text.encode("utf-8", "replace"))

    async def tell(self, type_: str, **values: int) -> None:
        """Hand over something that was not typed."""
        await self._send(b"M", json.dumps({"type": type_, **values}).encode())

    async def _send(self, kind: Kind, payload: bytes) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        # A process that has just ended takes no more; whoever reads its packets finds out.
        with suppress(ConnectionError, RuntimeError):
            pipe.write(kind + len(payload).to_bytes(4, "big") + payload)
            await pipe.drain()

    async def wait(self) -> int:
        """Its exit code, once it is over (minus the signal that ended it)."""
        return await self._process.wait()

    async def end(self) -> None:
        """Have it quit, as with ctrl+q; not for longer than ``QUIT_S`` and ``TERM_S``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIT_S):
                await self.tell("quit")
                await self._process.wait()
        for number, seconds in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, None)):
            if self._process.returncode is None:
                self.signal(number)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), seconds)

    def signal(self, number: signal.Signals) -> None:
        """Send it, and what it has started, a signal."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
