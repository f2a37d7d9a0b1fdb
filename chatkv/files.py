"""How files are opened and written: what somebody names is read with a limit; what is written is whole.

Files that hold what was said are for their owner alone (0600), folders of chatkv's own too (0700), whatever
the umask.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

MIB = 1 << 20
PART = ".part"
STALE_S = 3600
"""A part of a file that is older than this is of a write that was killed."""


class UnreadableError(OSError):
    """Why a file can't be read, as words that go behind its name: ``is not a file: it is a folder``."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.strerror = words


def open_file(path: Path, limit: int | None = None, *, pipe: bool = False) -> BinaryIO:
    """Open a regular file of at most ``limit`` bytes for reading; never waits for somebody to write.

    ``pipe``: a pipe is opened too (then reading may wait). Raises UnreadableError.
    """
    try:
        # Opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise UnreadableError("is not there: there is no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UnreadableError(f"can't be read: {reason}") from None
    try:
        state = os.fstat(descriptor)
        piped = stat.S_ISFIFO(state.st_mode) and pipe
        if stat.S_ISDIR(state.st_mode):
            raise UnreadableError("is not a file: it is a folder")
        if not stat.S_ISREG(state.st_mode) and not piped:
            raise UnreadableError("is not a file: it is a device, a pipe or a socket")
        if limit is not None and state.st_size > limit:
            raise UnreadableError(f"has {state.st_size:,} bytes; at most {limit:,} are read")
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: Path, limit: int, *, pipe: bool = False) -> bytes:
    """Return what is in a file of at most ``limit`` bytes. ``pipe`` and errors as in ``open_file``."""
    try:
        with open_file(path, limit, pipe=pipe) as file:
            data = file.read(limit + 1)
    except UnreadableError:
        raise
    except OSError as error:
        raise UnreadableError(f"can't be read: {error.strerror or error}") from None
    if len(data) > limit:
        raise UnreadableError(f"has more than {limit:,} bytes; at most {limit:,} are read")
    return data


def read_text(path: Path, limit: int, *, pipe: bool = False) -> str:
    """Return ``read_file`` as UTF-8 text, a byte-order mark left out. Raises UnreadableError."""
    try:
        return read_file(path, limit, pipe=pipe).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError("is not UTF-8 text") from None


def write_whole(path: Path, data: str | bytes, *, private: bool = False) -> None:
    """Write ``data`` (text as UTF-8) beside ``path`` and put it in its place.

    A reader sees the old or the new, which is on disk when this returns; a link stays one. A device or a
    pipe (``/dev/null``, ``/dev/stdout``) is written to. ``private``: for its owner's own eyes (mode 0600),
    else as their umask has it.
    Raises OSError, and UnicodeEncodeError for lone surrogates; nothing is left behind then.
    """
    if isinstance(data, str):
        data = data.encode("utf-8")
    if is_special(path):
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=PART, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as part:
            part.write(data)
            part.flush()
            os.fsync(handle)
        if not private:
            umask = os.umask(0)  # there is no other way to read it
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    # The name itself survives a power cut only once the folder is on disk too.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def private_folder(path: Path) -> None:
    """Make a folder, and those above it, for their owner alone; one that is there stays as it is."""
    missing = []
    place = path
    while not place.exists() and place != place.parent:
        missing.append(place)
        place = place.parent
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.is_dir():
        path.mkdir(mode=0o700)  # raises what there is to say


def tidy(folder: Path) -> None:
    """Narrow a folder of chatkv's own, and its files, to their owner; remove what killed writes left.

    What can't be changed stays; links are not followed.
    """
    with suppress(OSError):
        state = folder.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
            return
        if state.st_mode & 0o077:
            folder.chmod(0o700)
    before = time.time() - STALE_S
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                _tidy_file(entry, before)


def _tidy_file(entry: os.DirEntry[str], before: float) -> None:
    state = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(state.st_mode):
        return
    if entry.name.startswith(".") and entry.name.endswith(PART) and state.st_mtime < before:
        os.unlink(entry.path)
    elif state.st_mode & 0o077:
        os.chmod(entry.path, state.st_mode & 0o700)


def is_special(path: Path) -> bool:
    """Whether a device or a pipe has this name: to take its place would take it from everybody."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
