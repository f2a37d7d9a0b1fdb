"""Files written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: str | bytes, *, private: bool = False) -> None:
    """Write ``data`` (text as UTF-8) beside ``path`` and put it in its place.

    A reader sees the old or the new, which is on disk when this returns; a link stays one. A device or a
    pipe (``/dev/null``, ``/dev/stdout``) is written to. ``private``: for the person's own eyes (mode 0600),
    else as their umask has it.
    Raises OSError, and UnicodeEncodeError for lone surrogates; nothing is left behind then.
    """
    if isinstance(data, str):
        data = data.encode("utf-8")
    if is_special(path):
        path.write_bytes(data)
        return
    path = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
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


def is_special(path: Path) -> bool:
    """Whether a device or a pipe has this name: to take its place would take it from everybody."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
