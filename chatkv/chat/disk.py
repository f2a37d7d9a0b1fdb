"""Records on disk: added to a file, or a new one whole; moved, but never over another file.

What can't be done is one line with what to do.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from chatkv.chat.errors import ChatError
from chatkv.chat.reader import MAX_BYTES
from chatkv.chat.records import Record, encode
from chatkv.files import open_file, private_folder, write_whole


class State(NamedTuple):
    """Which file a name has, and what tells that it was written to."""

    device: int
    inode: int
    size: int
    changed: int
    """Nanoseconds."""

    def same_file(self, other: State) -> bool:
        """Whether both are of one file, whatever was written to it in between."""
        return self[:2] == other[:2]


class Added(NamedTuple):
    """The file before and after something was added, and whether it still has its name.

    ``descriptor`` is to be synced and closed by whoever asked for it.
    """

    before: State
    data: bytes
    after: State
    named: bool
    descriptor: int


def state(path: Path) -> State:
    """Raises OSError."""
    return _state(os.stat(path))


def _state(found: os.stat_result) -> State:
    return State(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def load(path: Path) -> tuple[bytes, State]:
    """All bytes of a file, and its state no later than that. Raises OSError."""
    with open_file(path, MAX_BYTES) as file:
        before = _state(os.fstat(file.fileno()))
        return file.read(), before


def add(path: Path, records: Iterable[Record]) -> Added:
    """Add ``records`` to an existing file in one ``write()``; a torn last line is ended first.

    They outlive this process at once, and a power cut when the descriptor is synced. They may go to a
    file that has lost its name meanwhile (``named``): then they are to be added again.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a file")
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
        before = _state(found)
        torn = before.size > 0 and os.pread(descriptor, 1, before.size - 1) != b"\n"
        data = b"\n" * torn + b"".join(map(encode, records))
        _append(descriptor, data)
        after = _state(os.fstat(descriptor))
        if not torn and not _stands_alone(descriptor, data, before.size, after.size):
            # Another process was killed in the middle of a line, in this very moment.
            _append(descriptor, b"\n" + data)
            after = _state(os.fstat(descriptor))
        try:
            named = state(path).same_file(after)
        except FileNotFoundError:
            named = False
    except BaseException:
        os.close(descriptor)
        raise
    return Added(before, data, after, named, descriptor)


def _append(descriptor: int, data: bytes) -> None:
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _stands_alone(descriptor: int, data: bytes, start: int, end: int) -> bool:
    """Whether what was added behind ``start`` begins a line."""
    if end == start + len(data):
        return True
    if end < start + len(data):  # cut in this very moment
        return False
    new = os.pread(descriptor, end - start, start)
    return new.startswith(data) or b"\n" + data in new


def write_new(path: Path, records: Iterable[Record]) -> bytes:
    """Write a new file that is there whole or not at all; returns what is in it.

    Raises FileExistsError where there is one, also one that comes meanwhile.
    """
    private_folder(path.parent)
    data = b"".join(map(encode, records))
    write_whole(path, data, private=True, replace=False)
    return data


def move_into(path: Path, folder: Path) -> Path:
    """Move a file into ``folder`` under a name that no other file there has; returns it. Raises OSError."""
    private_folder(folder)
    os.stat(path)  # else a name would be taken for nothing
    for target in free_names(path, folder):
        # The name is ours from here on: nobody takes one that is there.
        try:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            continue
        try:
            os.replace(path, target)
        except OSError:
            os.unlink(target)
            raise
        return target
    raise AssertionError("there is always another name")


def free_names(path: Path, folder: Path) -> Iterator[Path]:
    """``folder/<name>``, then ``<name>-2`` and so on; not those that are taken."""
    names = itertools.chain([path.name], (f"{path.stem}-{n}{path.suffix}" for n in itertools.count(2)))
    return (folder / name for name in names if not os.path.lexists(folder / name))


def move_back(path: Path, target: Path) -> None:
    """Move a file to a name that nobody has. Raises OSError, FileExistsError where somebody has it.

    A kill in the middle leaves it under both names.
    """
    os.link(path, target)
    os.unlink(path)


def check_writable(folder: Path) -> None:
    """Make ``folder`` and write a file there.

    Raises:
        ChatError: it can't be done; the line says why.
    """
    try:
        private_folder(folder)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\n")
            probe.flush()
    except FileNotFoundError as error:
        # Its parents were to be made too: so the place itself takes none (/proc, /sys …).
        there = next(place for place in folder.parents if place.exists())
        raise ChatError(
            f"can't keep sessions in {folder}: no folder can be made in {there}; "
            "choose another one with --sessions"
        ) from error
    except OSError as error:
        raise cannot("keep sessions in", folder, error) from error


def cannot(what: str, path: Path, error: OSError) -> ChatError:
    """``error`` as the line a person reads."""
    reason = error.strerror or str(error)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return ChatError(
        f"can't {what} {path}: {reason[:1].lower()}{reason[1:]}; "
        f"{'make room or ' if full else ''}choose another folder with --sessions"
    )
