"""Which session each chatkv over the same folder has on its screen: one small file a process, held locked.

A file that nobody holds is of a process that is over, however it ended, and is removed.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

_FOLDER = ".open"
_MAX_BYTES = 200


class Presence:
    """This process's file, and a look at the others'. Where it can't be made, nobody knows of this one."""

    def __init__(self, folder: Path) -> None:
        """``folder``: that of the sessions."""
        self._folder = folder / _FOLDER
        self._path = self._folder / str(os.getpid())
        self._file: int | None = None
        self._id: str | None = ""

    def show(self, id: str | None) -> None:
        """The session ``id`` is on the screen here; None: one without a file."""
        if id == self._id:
            return
        with suppress(OSError):
            if self._file is None:
                self._file = self._make()
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, (id or "").encode(), 0)
            self._id = id

    def _make(self) -> int:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        while True:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Between the two, another may have taken it for one that nobody holds.
                if os.path.samestat(os.fstat(file), os.stat(self._path)):
                    return file
            except FileNotFoundError:
                pass
            except OSError:
                os.close(file)
                raise
            os.close(file)

    def others(self) -> set[str]:
        """Ids of the sessions that are on other screens."""
        found: set[str] = set()
        with suppress(OSError):
            for path in self._folder.iterdir():
                if path != self._path:
                    with suppress(OSError, UnicodeDecodeError):
                        found.add(_held(path))
        return found - {""}

    def close(self) -> None:
        """This screen is gone."""
        if self._file is not None:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._file)
            self._file = None


def _held(path: Path) -> str:
    """What its holder says there; nobody holds it: nothing, and it is removed."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(file, _MAX_BYTES, 0).decode()
    else:
        path.unlink()
        return ""
    finally:
        os.close(file)
