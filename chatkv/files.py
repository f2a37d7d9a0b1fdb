"""How files are opened and written: what somebody names is read with a limit; what is written is whole.

Files that hold what was said are for their owner alone (0600), folders of chatkv's own too (0700), whatever
the umask.
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import BinaryIO

from chatkv.temporaries import make_part, remove_parts, temporary_folder

MIB = 1 << 20
NO_WRITER_S = 5.0
"""How long a pipe that nobody has opened for writing is waited for."""
SILENT_S = 30.0
"""How long whoever writes to a pipe may say nothing."""
_CHUNK = 1 << 16


class UnreadableError(OSError):
    """Why a file can't be read, as words that go behind its name: ``is not a file: it is a folder``."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.strerror = words


def open_file(path: Path, limit: int | None = None, *, pipe: bool = False) -> BinaryIO:
    """Open a regular file of at most ``limit`` bytes for reading; never waits for somebody to write.

    ``pipe``: a pipe is opened too; ``read_file`` knows how to read one. Raises UnreadableError.
    """
    try:
        # Opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if path.is_symlink():
            raise UnreadableError("is a link to nothing: there is no such file") from None
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
        os.set_blocking(descriptor, not piped)
        return os.fdopen(descriptor, "rb", buffering=0 if piped else -1)
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: Path, limit: int, *, pipe: bool = False) -> bytes:
    """Return what is in a file of at most ``limit`` bytes, or comes through a pipe.

    Raises UnreadableError.
    """
    try:
        with open_file(path, limit, pipe=pipe) as file:
            piped = pipe and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
            data = b"".join(_through(file.fileno(), limit)) if piped else file.read(limit + 1)
    except UnreadableError:
        raise
    except OSError as error:
        raise UnreadableError(f"can't be read: {error.strerror or error}") from None
    if len(data) > limit:
        raise UnreadableError(f"has more than {limit:,} bytes; at most {limit:,} are read")
    return data


def _through(pipe: int, limit: int) -> Iterator[bytes]:
    """What comes through it, up to ``limit`` bytes and a little; never waits for ever."""
    waits = select.poll()
    waits.register(pipe, select.POLLIN)
    heard, done, until = False, 0, time.monotonic() + NO_WRITER_S
    while done <= limit:
        try:
            chunk = os.read(pipe, _CHUNK)
        except BlockingIOError:
            # Somebody has it open and says nothing yet.
            heard = True
            if not waits.poll(SILENT_S * 1000):
                raise UnreadableError(f"is a pipe through which nothing came for {SILENT_S:.0f} s") from None
            continue
        if chunk:
            heard, done = True, done + len(chunk)
            yield chunk
            continue
        if heard:
            return
        # The end of the pipe, or nobody has opened the other end yet.
        left = until - time.monotonic()
        events = waits.poll(max(left, 0) * 1000)
        if not events:
            raise UnreadableError("is a pipe that nobody writes to")
        heard = bool(events[0][1] & select.POLLHUP)


@contextmanager
def read_again(path: Path, limit: int) -> Iterator[Path]:
    """A path that can be read more than once: ``path``, or what comes through that pipe as a file.

    The file has the pipe's name, at most ``limit`` bytes, and is gone afterwards. Raises UnreadableError.
    """
    if not path.is_fifo():
        yield path
        return
    with temporary_folder() as folder:
        data = read_file(path, limit, pipe=True)
        kept = folder / (path.name or "pipe")
        kept.write_bytes(data)
        del data
        yield kept


def read_text(path: Path, limit: int, *, pipe: bool = False) -> str:
    """Return ``read_file`` as UTF-8 text, a byte-order mark left out. Raises UnreadableError."""
    try:
        return read_file(path, limit, pipe=pipe).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError("is not UTF-8 text") from None


def write_whole(path: Path, data: str | bytes, *, private: bool = False, replace: bool = True) -> None:
    """Write ``data`` (text as UTF-8) beside ``path`` and put it in its place.

    A reader sees the old or the new, which is on disk when this returns; a link stays one. A device or a
    pipe (``/dev/null``, ``/dev/stdout``) is written to. ``private``: for its owner's own eyes (mode 0600),
    else as their umask has it. ``replace`` False: a file that is there stays, and FileExistsError is raised,
    also where it comes while this writes.
    Raises OSError, and UnicodeEncodeError for lone surrogates; nothing is left behind then.
    """
    if isinstance(data, str):
        data = data.encode("utf-8")
    if is_special(path):
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    _remove_parts_once(path.parent)
    handle, name = make_part(path)
    try:
        with os.fdopen(handle, "wb") as part:
            part.write(data)
            part.flush()
            os.fsync(handle)
            if private:
                os.fchmod(handle, 0o600)
            else:
                umask = os.umask(0)  # there is no other way to read it
                os.umask(umask)
                os.fchmod(handle, 0o666 & ~umask)
            if replace:
                os.replace(name, path)  # while it is locked: else another chatkv takes it for a dead one's
            else:
                _put_new(Path(name), path, data)
                os.unlink(name)
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


def _put_new(part: Path, path: Path, data: bytes) -> None:
    """Give what is in ``part`` the name ``path``, which nobody must have."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # A file system without hard links: a kill may leave a beginning of it.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


_looked_through: set[Path] = set()


def _remove_parts_once(folder: Path) -> None:
    """What killed writes of other processes left, the first time that this one writes there."""
    if folder not in _looked_through:
        _looked_through.add(folder)
        remove_parts(folder)


def private_folder(path: Path) -> None:
    """Make a folder, and those above it, for their owner alone; one that is there stays as it is."""
    missing = []
    place = path
    while not place.exists() and place != place.parent:
        missing.append(place)
        place = place.parent
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(OSError):  # a umask may have taken the owner's own rights
            folder.chmod(0o700)
    if not path.is_dir():
        path.mkdir(mode=0o700)  # raises what there is to say


def tidy(folder: Path, *patterns: str) -> None:
    """Narrow a folder of chatkv's own to its owner, and the files in it that ``patterns`` name (none: all);
    remove what killed writes left there.

    What can't be changed stays; links are not followed. A folder that is a person's home, or above it, or
    everybody's (/tmp), is not chatkv's own, whatever it was named for: it keeps its mode.
    """
    remove_parts(folder, own=True)
    with suppress(OSError, RuntimeError):
        state = folder.lstat()
        if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
            return
        shared = state.st_mode & stat.S_ISVTX or Path.home().is_relative_to(folder.absolute())
        if state.st_mode & 0o077 and not shared:
            folder.chmod(0o700)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not patterns or any(fnmatch(entry.name, pattern) for pattern in patterns):
                with suppress(OSError):
                    narrow(entry.path)


def narrow(file: str | Path) -> None:
    """Take others' rights to a regular file away, if it is this person's. Raises OSError."""
    state = os.lstat(file)
    if stat.S_ISREG(state.st_mode) and state.st_mode & 0o077 and state.st_uid == os.geteuid():
        os.chmod(file, state.st_mode & 0o700)


def is_special(path: Path) -> bool:
    """Whether a device or a pipe has this name: to take its place would take it from everybody."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # a NUL in it
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
