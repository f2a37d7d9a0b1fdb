"""Sessions on disk: one append-only JSONL file each, in one folder.

Each change is one record, written with a single ``write()`` of a whole line to a file opened with
``O_APPEND``, then ``fsync``: what a call has written is there after a kill. Two processes on the same
folder write whole lines that never mix; each sees the other's messages when it loads again, as
further branches of the tree, and the head is the last one written. What one process deletes while
the other still writes to it is written again by the other, whole.

A store belongs to one thread.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from chatkv.chat.errors import ChatError
from chatkv.chat.reader import Problem, file_name, read
from chatkv.chat.records import Record, dump, encode, message_record
from chatkv.chat.settings import Settings
from chatkv.chat.tree import Conversation, Message, clean_name, new_id
from chatkv.files import write_whole
from chatkv.paths import packaged
from chatkv.text import one_line

_FORK_SUFFIX = re.compile(r" ⑂\d+$")


@dataclass(slots=True)
class _File:
    """Where a conversation lies and what of it is not on disk yet."""

    conv: Conversation
    path: Path
    unknown: list[Record] = field(default_factory=list)
    has_header: bool = True
    pending: list[Record] = field(default_factory=list)
    """Records whose writing failed; they go out before the next one."""


class SessionStore:
    """All sessions of ``folder``. The folder is made when the first session is.

    Every method that writes raises ChatError (one line) when it can't; the change stays in memory
    and goes out with the next write that works.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, _File] = {}

    @property
    def conversations(self) -> list[Conversation]:
        """The loaded and created ones, oldest first; deleted ones are not among them."""
        live = [f.conv for f in self._files.values() if f.path.parent == self.folder]
        return sorted(live, key=lambda conv: (conv.created, conv.id))

    def check_writable(self) -> None:
        """Make the folder and write a file there.

        Raises:
            ChatError: it can't be done; the line says why.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder) as probe:
                probe.write(b"\n")
                probe.flush()
        except FileNotFoundError as error:
            # Its parents were to be made too: so the place itself takes none (/proc, /sys …).
            there = next(place for place in self.folder.parents if place.exists())
            raise ChatError(
                f"can't keep sessions in {self.folder}: no folder can be made in {there}; "
                "choose another one with --sessions"
            ) from error
        except OSError as error:
            raise _cannot("keep sessions in", self.folder, error) from error

    def load_all(self) -> tuple[list[Conversation], list[Problem]]:
        """Every session of the folder, oldest first, and what was wrong in their files.

        To be called once, at the start: it forgets what could not be written so far.
        """
        problems: list[Problem] = []
        self._files.clear()
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.suffix == ".jsonl")
        except FileNotFoundError:
            return [], []
        except OSError as error:
            return [], [Problem(self.folder, None, error.strerror or str(error))]
        for path in paths:
            try:
                if not path.is_file():
                    problems.append(Problem(path, None, "not a file, skipped"))
                    continue
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
            self._files[conv.id] = _File(conv, path, loaded.unknown, loaded.has_header)
        return self.conversations, problems

    def create(self, name: str | None = None, system: str | None = None) -> Conversation:
        """A new, empty session."""
        return self._write_new(Conversation(name=name, system=system))

    def fork(self, conv: Conversation, message_id: str, name: str | None = None) -> Conversation:
        """A new session with the messages from the first to ``message_id``, which keep their ids."""
        fork = Conversation(
            name=name or self._fork_name(conv), system=conv.system, forked_from=(conv.id, message_id)
        )
        fork.sampling = dict(conv.sampling)
        for message in conv.path(message_id):
            fork.add(message)
        return self._write_new(fork)

    def adopt(self, example: Conversation) -> Conversation:
        """A session of one's own with everything that is in ``example``."""
        own = Conversation(name=example.given_name, system=example.system)
        own.sampling = dict(example.sampling)
        for message in example.messages.values():
            own.add(message)
        own.head = example.head
        return self._write_new(own)

    def append(self, conv: Conversation, message: Message) -> None:
        """Save ``message``; it is put into ``conv`` first unless it is there already."""
        if message.id not in conv.messages:
            conv.add(message)
        self._write(conv, message_record(message))

    def set_head(self, conv: Conversation, id: str | None) -> None:
        """Go on from message ``id`` (None: from the start), also after a restart."""
        conv.set_head(id)
        self._write(conv, {"chatkv": "head", "id": id})

    def rename(self, conv: Conversation, name: str) -> None:
        """Give ``conv`` a name; it is cleaned and cut to one line."""
        conv.given_name = clean_name(name)
        self._write(conv, {"chatkv": "name", "name": conv.given_name})

    def set_system(self, conv: Conversation, system: str | None) -> None:
        """Set the system prompt (None: the model's own default)."""
        conv.system = system
        self._write(conv, {"chatkv": "system", "system": system})

    def set_sampling(self, conv: Conversation, sampling: Settings) -> None:
        """Set how answers are sampled, where it differs from the default."""
        conv.sampling = dict(sampling)
        self._write(conv, {"chatkv": "sampling", "sampling": conv.sampling})

    def set_draft(self, conv: Conversation, text: str, instead: str | None = None) -> None:
        """Keep what was typed and not sent; ``instead``: the message whose place it is to take."""
        conv.draft, conv.draft_for = text, instead
        self._write(conv, {"chatkv": "draft", "text": text} | ({"for": instead} if instead else {}))

    def delete(self, conv: Conversation) -> None:
        """Move the file into ``deleted/``, from where ``undelete`` brings it back."""
        self._move(conv, self.folder / "deleted")

    def undelete(self, conv: Conversation) -> None:
        """Bring back a session deleted through this store."""
        self._move(conv, self.folder)

    @staticmethod
    def examples() -> list[Conversation]:
        """The shipped example sessions; read-only: ``adopt`` one to talk in it."""
        return [read(path).conversation for path in sorted(packaged("sessions").glob("*.jsonl"))]

    def _fork_name(self, conv: Conversation) -> str:
        base = one_line(_FORK_SUFFIX.sub("", conv.name), 50)
        taken = {other.name for other in self.conversations}
        return next(name for n in range(1, len(taken) + 2) if (name := f"{base} ⑂{n}") not in taken)

    def _of(self, conv: Conversation) -> _File:
        file = self._files.get(conv.id)
        if file is None or file.conv is not conv:
            raise ChatError(f"session '{conv.name}' is not one of {self.folder}; adopt or fork it first")
        return file

    def _write_new(self, conv: Conversation) -> Conversation:
        file = _File(conv, self.folder / file_name(conv))
        try:
            _write_whole(file.path, dump(conv))
        except OSError as error:
            raise _cannot("make a session in", self.folder, error) from error
        self._files[conv.id] = file
        return conv

    def _write(self, conv: Conversation, record: Record) -> None:
        file = self._of(conv)
        file.pending.append(record)
        try:
            if not file.has_header:
                file.pending.insert(0, next(dump(conv)))
                file.has_header = True
            try:
                _append(file.path, file.pending)
            except FileNotFoundError:  # Someone removed it: the memory has all of it.
                _write_whole(file.path, [*dump(conv), *file.unknown])
        except OSError as error:
            raise _cannot("save to", file.path, error) from error
        file.pending.clear()

    def _move(self, conv: Conversation, folder: Path) -> None:
        file = self._of(conv)
        target = folder / file.path.name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                os.replace(file.path, target)
            except FileNotFoundError:
                if not target.exists():
                    _write_whole(target, [*dump(conv), *file.unknown])
        except OSError as error:
            raise _cannot("move", file.path, error) from error
        file.path = target


def _append(path: Path, records: Iterable[Record]) -> None:
    """Add ``records`` to an existing file in one ``write()``; a torn last line is ended first."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        data = b"\n" * torn + b"".join(map(encode, records))
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_whole(path: Path, records: Iterable[Record]) -> None:
    """Write a new file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, b"".join(map(encode, records)), private=True)


def _cannot(what: str, path: Path, error: OSError) -> ChatError:
    reason = error.strerror or str(error)
    return ChatError(
        f"can't {what} {path}: {reason[:1].lower()}{reason[1:]}; "
        "make room or choose another folder with --sessions"
    )
