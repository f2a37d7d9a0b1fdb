"""The files of a folder of sessions, read: all of them, those that have come, and what was added to one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from chatkv.chat import disk
from chatkv.chat.errors import ChatError
from chatkv.chat.reader import Problem, read
from chatkv.chat.records import Record
from chatkv.chat.tree import Conversation, new_id


@dataclass(slots=True)
class SessionFile:
    """Where a conversation lies and what of it is not on disk yet."""

    conv: Conversation
    path: Path
    unknown: list[Record] = field(default_factory=list)
    has_header: bool = True
    pending: list[Record] = field(default_factory=list)
    """Records whose writing failed; they go out before the next one."""
    known: int = 0
    """Bytes of the file that were read or written here; with more in it, another process has added some."""


class SessionFiles:
    """What is in ``folder``, and where each conversation lies. Nothing is written here."""

    def __init__(self, folder: Path, unkept: str = "") -> None:
        """``unkept``: why nothing is to be written; all is read, and changes stay in memory."""
        self.folder = folder
        self.unkept = unkept
        self._files: dict[str, SessionFile] = {}
        self._looked = 0
        """When the folder had last changed when it was looked through; ns."""

    @property
    def conversations(self) -> list[Conversation]:
        """The loaded and created ones, oldest first; deleted ones are not among them."""
        live = [f.conv for f in self._files.values() if f.path.parent == self.folder]
        return sorted(live, key=lambda conv: (conv.created, conv.id))

    def load_all(self) -> tuple[list[Conversation], list[Problem]]:
        """Every session of the folder, oldest first, and what was wrong in their files.

        To be called once, at the start: it forgets what could not be written so far.
        """
        self._files.clear()
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
            self._looked = changed
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
                size = path.stat().st_size
                loaded = read(path)
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
            if conv.id in self._files:
                problems.append(
                    Problem(path, None, f"same session id as {self._files[conv.id].path.name}; got a new one")
                )
                conv.id = new_id()
            self._files[conv.id] = SessionFile(conv, path, loaded.unknown, loaded.has_header, known=size)
            new.append(conv)
        return new, problems

    def catch_up(self, conv: Conversation) -> str | None:
        """Take in what other processes have added to the file of ``conv`` since it was read or written.

        Messages join its tree, and name, system prompt and sampling are as they are in the file; the head
        stays. Returns the head that the file has, where anything was added, else None.
        Raises ChatError where the file can't be read, or is gone.
        """
        file = self._of(conv)
        try:
            known = file.path.stat().st_size
            if known == file.known:
                return None
            there = read(file.path).conversation
        except OSError as error:
            raise disk.cannot("read", file.path, error) from error
        file.known = known
        head = conv.head
        for message in there.messages.values():
            if message.id not in conv.messages:
                conv.add(message)
        conv.head = head
        conv.given_name, conv.system, conv.sampling = there.given_name, there.system, there.sampling
        return there.head

    def _of(self, conv: Conversation) -> SessionFile:
        file = self._files.get(conv.id)
        if file is None or file.conv is not conv:
            raise ChatError(f"session '{conv.name}' is not one of {self.folder}; adopt or fork it first")
        return file
