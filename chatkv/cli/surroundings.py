"""What a chat has around it: a terminal or none, a folder that takes what is said or not, a log."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from chatkv.files import private_folder, tidy
from chatkv.temporaries import remove_parts

DATA_FOLDERS = ("sessions", "sessions/deleted", "sessions/.open", "snapshots")
"""Those of the data folder that hold what was said."""


def unkept(folder: Path, save: bool, asked_for: bool) -> str:
    """Why nothing is kept of the chat; empty: all is.

    Raises ChatError where the folder that was asked for is not there and can't be made.
    """
    from chatkv.chat.disk import check_writable
    from chatkv.chat.errors import ChatError

    if not save:
        return "--no-save asks for it"
    try:
        check_writable(folder)
    except ChatError as error:
        if asked_for and not folder.is_dir():
            raise
        return str(error)
    return ""


def is_terminal() -> bool:
    """Whether a screen can be drawn, and keys be read."""
    # Textual draws on stderr. A stream that was closed by the caller is None.
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def tidy_folders(sessions: Path) -> None:
    """Narrow the folders that hold what was said to their owner; remove what killed writes left.

    ``sessions`` may be a person's own folder: then it and what is in it keep their modes.
    """
    from chatkv.paths import config_dir, data_dir

    data = data_dir()
    tidy(data, "*.json", "*.log*")
    for name in DATA_FOLDERS:
        tidy(data / name)
    tidy(config_dir() / "presets")
    for folder in (sessions, sessions / "deleted"):
        remove_parts(folder, own=True)


class _OwnLog(RotatingFileHandler):
    """For its owner alone: a traceback may hold what was said."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return open(descriptor, "a", encoding=self.encoding, errors=self.errors)


def log_to_file() -> None:
    """Tracebacks of faults go where a person can find them; the screen tells them in one line."""
    from chatkv.paths import data_dir

    handler: logging.Handler = logging.NullHandler()
    with suppress(OSError):  # without a place for it there is no log; the chat works all the same
        private_folder(data_dir())
        path = data_dir() / "chatkv.log"
        handler = _OwnLog(path, maxBytes=1 << 20, backupCount=1, encoding="utf-8", delay=True)
    logging.raiseExceptions = False  # a full disk: no log is better than tracebacks on the screen
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger("chatkv").addHandler(handler)
    logging.getLogger("chatkv").setLevel(logging.INFO)
    logging.getLogger("chatkv").propagate = False
