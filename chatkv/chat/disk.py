"""Records on disk: added to a file, or a new one whole. What can't be done is one line with what to do."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from chatkv.chat.errors import ChatError
from chatkv.chat.records import Record, encode
from chatkv.files import private_folder, write_whole


class Added(NamedTuple):
    """Bytes of the file before and after: with more between than was added, others write to it, too."""

    before: int
    own: int
    after: int


def add(path: Path, records: Iterable[Record]) -> Added:
    """Add ``records`` to an existing file in one ``write()``; a torn last line is ended first."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        state = os.fstat(descriptor)
        if state.st_mode & 0o077 and state.st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
        size = state.st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        data = b"\n" * torn + b"".join(map(encode, records))
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
        return Added(size, len(data), os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def write_new(path: Path, records: Iterable[Record]) -> int:
    """Write a new file that is there whole or not at all; returns its bytes."""
    private_folder(path.parent)
    data = b"".join(map(encode, records))
    write_whole(path, data, private=True)
    return len(data)


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
