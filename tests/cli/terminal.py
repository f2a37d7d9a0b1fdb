"""``chatkv run`` as a person has it, in a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType

from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation


class Terminal:
    """A process in a terminal of its own; what it writes is in ``seen``, its data in ``folder``/data."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.data = folder / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        (self.data / "screen.json").write_text(json.dumps({"toured": True}))
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
        own = {
            "CHATKV_DATA": str(self.data),
            "CHATKV_CONFIG": str(folder / "config"),
            "TERM": "xterm-256color",
        }
        # Where they are set they count for more than the terminal's own size.
        env = {
            name: value for name, value in {**os.environ, **own}.items() if name not in ("COLUMNS", "LINES")
        }
        self.seen = b""
        self.closed = False
        self.cooked = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "chatkv", "run", *options],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            start_new_session=True,
            # Its own terminal: closing it hangs up, as closing a window does.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.slave = slave

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def read(self, seconds: float) -> None:
        """Take in what comes within ``seconds``."""
        if not self.closed and select.select([self.master], [], [], seconds)[0]:
            self.seen += os.read(self.master, 1 << 16)

    def until(self, word: str, seconds: float) -> None:
        """Until it has written ``word``, from here on."""
        # A machine may be ten times slower.
        self.seen, until = b"", time.monotonic() + 10 * seconds
        while word.encode() not in self.seen:
            assert time.monotonic() < until, f"{word!r} did not come: {self.seen[-2000:]!r}"
            self.read(0.2)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def over(self, seconds: float = 300) -> int:
        """Its exit code, once it is over."""
        until = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < until, "it does not end"
            self.read(0.01) if not self.closed else time.sleep(0.01)
        self.read(0.2)
        return self.process.returncode

    def close(self) -> None:
        """As when its window is closed."""
        if not self.closed:
            self.closed = True
            os.close(self.slave)
            os.close(self.master)

    def sessions(self) -> list[Conversation]:
        """What is kept; all of it without a fault."""
        conversations, problems = SessionStore(self.data / "sessions").load_all()
        assert problems == []
        return conversations
