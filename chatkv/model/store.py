"""The folder of fetched and converted models: built aside, then put in place in one step.

A model folder appears whole or not at all. One lock file a model keeps two processes from doing the
same work; whoever holds it may remove what an interrupted run left behind.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from chatkv.files import write_whole
from chatkv.model.errors import ModelError
from chatkv.paths import cache_dir

Progress = Callable[[str, float | None], None]
"""Called with a stage in words and its fraction 0…1, or None where that is unknown."""

MANIFEST = "chatkv.json"
"""Written last into a model folder: where it came from, and the size and SHA-256 of every file in it."""
CHECKED = "checked.json"
"""Beside it: which version of each file (size, times, inode) has been hashed and was the right one."""

OUTSIDE = "outside"
"""What a build notes under this name are files elsewhere that the folder is made from: path → SHA-256."""

_POLL_S = 0.2
_CHUNK = 1 << 22
_TEMPORARY = ".tmp-"


def models_dir() -> Path:
    """Where model folders lie: ``CHATKV_CACHE``, or the platform's cache folder, then ``models``."""
    return cache_dir() / "models"


def is_complete(folder: Path) -> bool:
    """True where the manifest is there and every file has the size it says; nothing is hashed."""
    manifest = _json(folder / MANIFEST)
    try:
        return bool(manifest) and all(
            (folder / name).stat().st_size == size for name, size in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def is_sound(folder: Path, known: Mapping[str, str], progress: Progress) -> bool:
    """True where it is complete and every file is the one that was put there.

    A version of a file is hashed when it is seen for the first time, later its size, times and inode are
    compared. ``known`` (name → SHA-256) goes before the manifest; a file of a manifest without hashes, as
    earlier versions wrote it, is taken as it is then, once.
    """
    if not is_complete(folder):
        return False
    manifest, checked = _json(folder / MANIFEST), _json(folder / CHECKED)
    found: dict[str, Any] = {}
    for name in manifest["files"]:
        try:
            before = checked.get(name) or {}
            wanted = known.get(name) or manifest.get("sha256s", {}).get(name) or before.get("sha256")
            version = _version(folder / name)
            if before.get("version") == version and before.get("sha256") == wanted:
                found[name] = before
                continue
            digest = sha256_of(folder / name, lambda done: progress("checking the model's files", done))
        except (OSError, TypeError, AttributeError):
            return False
        if wanted is not None and digest != wanted:
            return False
        found[name] = {"version": version, "sha256": digest}
    if found != checked:
        with suppress(OSError):  # a cache that can't be written is hashed each time
            write_whole(folder / CHECKED, json.dumps(found, indent=1))
    return True


def sha256_of(path: Path, progress: Callable[[float], None] = lambda fraction: None) -> str:
    """The file's SHA-256 in hexadecimal digits. Raises OSError."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            progress(min(done / max(size, 1), 1.0))
    return digest.hexdigest()


def _version(path: Path) -> list[int]:
    """What changes where a file is written to or another takes its place."""
    state = path.stat()
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def _json(path: Path) -> dict[str, Any]:
    """The object in a file of ours; empty where there is none, or it is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def require_space(folder: Path, needed_bytes: int) -> None:
    """Raise ModelError where the disk of ``folder`` has less than ``needed_bytes`` left."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise ModelError(
            f"the disk of {models_dir()} has {free >> 20} MiB left but the model needs "
            f"{needed_bytes >> 20} MiB; "
            "free some space, or set CHATKV_CACHE to a folder on another disk"
        )


def build_once(
    name: str,
    build: Callable[[Path], dict[str, Any]],
    progress: Progress,
    known: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """The model folder ``name``, built now unless it is there, whole and unchanged already.

    ``build`` fills an empty folder and returns what to note in the manifest. An exception in it
    (KeyboardInterrupt too) leaves nothing behind. ``known``: hashes that its files must have. Raises
    ModelError where the cache folder can't be written or the disk runs full.
    """
    target = models_dir() / name
    _remove_leftovers(target.parent)
    if is_sound(target, known, progress):
        return target
    with _write_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock(target.parent / f".{name}.lock", progress):
            _remove_temporaries(target.parent, name)
            if is_sound(target, known, progress):
                return target
            _build(target, build)
    return target


def _build(target: Path, build: Callable[[Path], dict[str, Any]]) -> None:
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}{_TEMPORARY}", dir=target.parent))
    try:
        notes = build(aside)
        outside: dict[str, str] = notes.pop(OUTSIDE, {})
        sha256s = {p.name: sha256_of(p) for p in sorted(aside.iterdir())} | outside
        checked = {n: {"version": _version(aside / n), "sha256": digest} for n, digest in sha256s.items()}
        manifest = notes | {"files": {n: it["version"][0] for n, it in checked.items()}, "sha256s": sha256s}
        (aside / CHECKED).write_text(json.dumps(checked, indent=1), encoding="utf-8")
        (aside / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        for path in aside.iterdir():
            _sync(path)
        aside.chmod(0o755)
        if target.exists():
            # Damaged: something took a file out of it, cut one short or changed it.
            shutil.rmtree(target)
        aside.rename(target)
        _sync(target.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """What killed builds of any model left there: their half folders and their lock files."""
    with suppress(OSError):
        names = [entry.name for entry in os.scandir(folder)]
        halves = {name[1:].rpartition(_TEMPORARY)[0] for name in names if _TEMPORARY in name}
        locks = {name[1:].removesuffix(".lock") for name in names if name.endswith(".lock")}
        for name in halves | locks:
            if name and (handle := _try_lock(folder / f".{name}.lock")) is not None:
                _remove_temporaries(folder, name)
                _unlock(handle, folder / f".{name}.lock")


def _remove_temporaries(folder: Path, name: str) -> None:
    for stale in folder.glob(f".{glob.escape(name)}{_TEMPORARY}*"):
        shutil.rmtree(stale, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _lock(path: Path, progress: Progress) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; the kernel drops it when the process dies, however it dies."""
    while (handle := _try_lock(path)) is None:
        progress("waiting for another chatkv that prepares this model", None)
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        _unlock(handle, path)


def _try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock; None where another process does. Raises OSError."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held it before has removed the file: the one of that name now is another.
        if os.path.samestat(os.fstat(handle), os.stat(path)):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _unlock(handle: int, path: Path) -> None:
    with suppress(OSError):
        path.unlink()
    os.close(handle)


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
