"""Files and folders of passing use, each held by a lock while its process lives.

What a killed process left behind is held by nobody: the next chatkv that looks removes it, and never takes
away what a live one is about to use. Where a file system has no locks nothing is removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_RANDOM = r"[a-z0-9_]{8}"
_PART = re.compile(rf"\..*\.chatkv-{_RANDOM}\.part")
_OLD_PART = re.compile(rf"\..+\.{_RANDOM}\.part")
"""As earlier versions named them."""
FOLDER = "chatkv-tmp-"


def make_part(path: Path) -> tuple[int, str]:
    """An empty file beside ``path`` for what is to take its place: a locked descriptor, and its name."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.chatkv-", suffix=".part", dir=path.parent)
        if _keep(handle, name):
            return handle, name
        os.close(handle)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """An empty folder (0700) among the system's temporary ones, removed with all in it at the end."""
    where = Path(tempfile.gettempdir())
    remove_folders(where, re.compile(rf"{FOLDER}{_RANDOM}"))
    while True:
        name = tempfile.mkdtemp(prefix=FOLDER)
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if _keep(handle, name):
            break
        os.close(handle)
    try:
        yield Path(name)
    finally:
        shutil.rmtree(name, ignore_errors=True)
        os.close(handle)


def _keep(handle: int, name: str) -> bool:
    """Lock it; False where another process took it for one that nobody holds, before that."""
    with suppress(OSError):  # no locks on this file system: then nobody removes it
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        return os.path.samestat(os.fstat(handle), os.stat(name))
    except FileNotFoundError:
        return False


def remove_parts(folder: Path, *, own: bool = False) -> None:
    """Remove the parts in ``folder`` whose writer is over. ``own``: the folder is chatkv's, so that parts
    under the plainer names of earlier versions are meant, too.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith(".part"):
                continue
            if _PART.fullmatch(entry.name) or (own and _OLD_PART.fullmatch(entry.name)):
                remove_unheld(Path(entry.path))


def remove_folders(where: Path, name: re.Pattern[str]) -> None:
    """Remove this person's folders in ``where`` that are called so and whose process is over."""
    with suppress(OSError), os.scandir(where) as entries:
        for entry in entries:
            if name.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_folder(Path(entry.path))


def _remove_folder(path: Path) -> None:
    state = path.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)


def remove_unheld(path: Path) -> bool:
    """Remove the file ``path`` if nobody holds it locked; whether that was so."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return False
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.lstat(path)):
                path.unlink()
                return True
        finally:
            os.close(handle)
    return False
