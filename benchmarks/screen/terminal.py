"""A terminal for a measured app: this end reads what the app draws and presses keys."""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Self

from chatkv import children
from chatkv.errors import ChatkvError
from chatkv.temporaries import temporary_folder

_TAIL = 4_096
_CHUNK = 1 << 16


class Terminal:
    """``order`` goes to ``measure/child.py``, which runs in ``columns`` by ``rows`` cells. Not on Windows."""

    def __init__(
        self,
        order: Mapping[str, Any],
        columns: int,
        rows: int,
        progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
    ) -> None:
        try:
            import fcntl
            import pty
            import termios
        except ImportError:
            raise ChatkvError("the screen can only be measured where there are pseudo terminals") from None
        self._progress = progress
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._told, tell = os.pipe()
        # The person's settings and sessions have no part in it.
        self._ending = ExitStack()
        folder = self._ending.enter_context(temporary_folder())
        own = {name: str(folder / name) for name in ("CHATKV_DATA", "CHATKV_CONFIG")}
        self._process = subprocess.Popen(
            children.module("benchmarks.screen.child", json.dumps(order), str(tell)),
            cwd=folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            pass_fds=(tell,),
            env={**_inherited(), **own, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
        )
        os.close(slave)
        os.close(tell)
        self._tail = b""
        self._unread = b""
        self._messages: list[dict[str, Any]] = []
        self._open = {self._master, self._told}
        self.drawn = 0
        """Bytes that the app has written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)
        os.close(self._told)
        self._ending.close()

    def press(self, keys: bytes, shows: bytes = b"", timeout: float = 5.0) -> float | None:
        """Type ``keys``; the seconds until ``shows`` is drawn, None where it is not in time."""
        self._tail = b""
        start = time.perf_counter()
        os.write(self._master, keys)
        if not shows:
            return 0.0
        while time.perf_counter() - start < timeout and self._open:
            at = self._read(timeout)
            if shows in self._tail:
                return at - start
        return None

    def rest(self, seconds: float) -> None:
        """Go on reading for so long."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0 and self._open:
            self._read(left)

    def wait(self, word: str, timeout: float) -> Any:
        """The value of the next message with ``word`` in it. Raises ChatkvError where none comes."""
        until = time.perf_counter() + timeout
        while True:
            while self._messages:
                message = self._messages.pop(0)
                if "error" in message:
                    raise ChatkvError(f"the measured screen failed: {message['error']}")
                if "progress" in message:
                    self._progress(*message["progress"])
                if word in message:
                    return message[word]
            left = until - time.perf_counter()
            if left <= 0:
                raise ChatkvError(f"the measured screen said nothing for {timeout:.0f} s")
            if not self._open:
                code = self._process.wait()
                said = self._tail.decode(errors="replace").strip().splitlines()
                raise ChatkvError(f"the measured screen ended early (exit code {code}): {(said or [''])[-1]}")
            self._read(left)

    def _read(self, timeout: float) -> float:
        """Take what has come; when that was."""
        for ready in select.select(list(self._open), [], [], timeout)[0]:
            try:
                data = os.read(ready, _CHUNK)
            except OSError:  # Linux says so where the other end of a pseudo terminal is closed
                data = b""
            if not data:
                self._open.discard(ready)
            elif ready == self._master:
                self._tail = self._tail[-_TAIL:] + data
                self.drawn += len(data)
            else:
                *lines, self._unread = (self._unread + data).split(b"\n")
                self._messages += map(json.loads, lines)
        return time.perf_counter()


def _inherited() -> dict[str, str]:
    """The environment without the size of another terminal, which would be believed."""
    inherited = children.environment()
    return {name: value for name, value in inherited.items() if name not in ("COLUMNS", "LINES")}
