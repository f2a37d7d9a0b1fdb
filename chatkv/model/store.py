"""The folder of fetched and converted models: built aside, then put in place in one step.

A model folder appears whole or not at all. One lock file a model keeps two processes from doing the
same work; whoever holds it may remove what an interrupted run left behind.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from chatkv.model.errors import ModelError
from chatkv.paths import cache_dir

Progress = Callable[[str, float | None], None]
"""Called with a stage in words and its fraction 0…1, or None where that is unknown."""

MANIFEST = "chatkv.json"
"""Written last into a model folder: where it came from, and the size of every file in it."""

_POLL_S = 0.2


def models_dir() -> Path:
    """Where model folders lie: ``CHATKV_CACHE``, or the platform's cache folder, then ``models``."""
    return cache_dir() / "models"


def is_complete(folder: Path) -> bool:
    """True where the manifest is there and every file has the size it says."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return all((folder / name).stat().st_size == size for name, size in manifest["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def require_space(folder: Path, needed_bytes: int) -> None:
    """Raise ModelError where the disk of ``folder`` has less than ``needed_bytes`` left."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise ModelError(
            f"the disk of {models_dir()} has {free >> 20} MiB left but the model needs "
            f"{needed_bytes >> 20} MiB; "
            "free some space, or set CHATKV_CACHE to a folder on another disk"
        )


def build_once(name: str, build: Callable[[Path], dict[str, Any]], progress: Progress) -> Path:
    """The model folder ``name``, built now unless it is complete already.

    ``build`` fills an empty folder and returns what to note in the manifest. An exception in it
    (KeyboardInterrupt too) leaves nothing behind. Raises ModelError where the cache folder can't be
    written or the disk runs full.
    """
    target = models_dir() / name
    if is_complete(target):
        return target
    with _write_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock(target.parent / f".{name}.lock", progress):
            for stale in target.parent.glob(f".{name}.tmp-*"):
                shutil.rmtree(stale, ignore_errors=True)
            if is_complete(target):
                return target
            _build(target, build)
    return target


def _build(target: Path, build: Callable[[Path], dict[str, Any]]) -> None:
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.tmp-", dir=target.parent))
    try:
        notes = build(aside)
        files = {p.name: p.stat().st_size for p in sorted(aside.iterdir())}
        (aside / MANIFEST).write_text(json.dumps(notes | {"files": files}, indent=1), encoding="utf-8")
        for path in aside.iterdir():
            _sync(path)
        aside.chmod(0o755)
        if target.exists():
            # Damaged: something took a file out of it or cut one short.
            shutil.rmtree(target)
        aside.rename(target)
        _sync(target.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _lock(path: Path, progress: Progress) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; the kernel drops it when the process dies, however it dies."""
    with path.open("a") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress("waiting for another chatkv that prepares this model", None)
                time.sleep(_POLL_S)
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = "the disk is full; free some space"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            reason = "it can't be written; change its permissions"
        else:
            reason = f"{error.strerror or error}; check the folder"
        raise ModelError(f"model cache {folder}: {reason}, or set CHATKV_CACHE to another folder") from error
