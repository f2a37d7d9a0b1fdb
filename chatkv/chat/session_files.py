"""The files of a folder of sessions: all of them, those that have come, and what was added to one."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from chatkv.chat import disk
from chatkv.chat.errors import ChatError
from chatkv.chat.reader import Problem
from chatkv.chat.session_file import SessionFile
from chatkv.chat.tree import Conversation, new_id

DELETED = "deleted"
_SURE_NS = 2_000_000_000
"""A folder that has not changed for so long will have another time of change when it does."""


class SessionFiles:
    """What is in ``folder``, and where each conversation lies."""

    def __init__(self, folder: Path, unkept: str = "") -> None:
        """``unkept``: why nothing is to be written; all is read, and changes stay in memory."""
        self.folder = folder
        self.unkept = unkept
        self._files: dict[Conversation, SessionFile] = {}
        self._looked = 0
        """When the folder had last changed when it was looked through; ns."""

    @property
    def conversations(self) -> list[Conversation]:
        """The loaded and created ones, oldest first; deleted ones are not among them."""
        live = [file.conv for file in self._files.values() if not file.deleted]
        return sorted(live, key=lambda conv: (conv.created, conv.id))

    def load_all(self) -> tuple[list[Conversation], list[Problem]]:
        """Every session of the folder, oldest first, and what was wrong in their files; for the start."""
        self._looked = 0
        _, problems = self.load_new()
        return self.conversations, problems

    def load_new(self) -> tuple[list[Conversation], list[Problem]]:
        """Those that other processes have made since the last look, and what was wrong in their files."""
        problems: list[Problem] = []
        new: list[Conversation] = []
        try:
            changed = self.folder.stat().st_mtime_ns
            if changed == self._looked:
                return [], []
            self._looked = changed if time.time_ns() - changed > _SURE_NS else 0
            known = {file.path for file in self._files.values()}
            paths = sorted(p for p in self.folder.iterdir() if p.suffix == ".jsonl" and p not in known)
        except FileNotFoundError:
            return [], []
        except OSError as error:
            return [], [Problem(self.folder, None, error.strerror or str(error))]
        for path in paths:
            try:
                if not path.is_file():
                    problems.append(Problem(path, None, "not a file, skipped"))
                    continue
                file, loaded = SessionFile.read(path)
            except OSError as error:
                problems.append(Problem(path, None, f"can't be read ({error.strerror}), skipped"))
                continue
            conv = loaded.conversation
            if not (loaded.has_header or conv.messages or loaded.unknown):
                first = f": {loaded.problems[0].message}" if loaded.problems else ""
                line = loaded.problems[0].line if loaded.problems else None
                problems.append(Problem(path, line, f"holds no session, left out{first}"))
                continue
            problems += loaded.problems
            twin = next((it for it in self._files.values() if it.conv.id == conv.id and not it.deleted), None)
            if twin is not None:
                problems.append(Problem(path, None, f"same session id as {twin.path.name}; got a new one"))
                conv.id = new_id()
            self._files[conv] = file
            new.append(conv)
        return new, problems

    def catch_up(self, conv: Conversation) -> str | None:
        """Take in what other processes have added to the file of ``conv``; write what it has lost.

        Messages join its tree, and name, system prompt and sampling are as they are in the file, unless that
        is an older one; the head stays. Returns the head that the file has, where anything has changed, else
        None.
        Raises ChatError where the file can't be read, or is gone (then what it held is in ``deleted/``).
        """
        file = self._of(conv)
        try:
            return file.catch_up(write=not self.unkept)
        except FileNotFoundError as error:
            self._keep_aside(file)
            raise disk.cannot("read", file.path, error) from error
        except OSError as error:
            raise disk.cannot("read", file.path, error) from error

    def _keep_aside(self, file: SessionFile) -> None:
        if not self.unkept and not file.deleted:
            with suppress(OSError):  # tried again at the next look
                file.keep_aside(self.folder / DELETED)

    def _of(self, conv: Conversation) -> SessionFile:
        file = self._files.get(conv)
        if file is None:
            raise ChatError(f"session '{conv.name}' is not one of {self.folder}; adopt or fork it first")
        return file
