"""Sessions on disk: one append-only JSONL file each, in one folder.

Each change is one record, written with a single ``write()`` of a whole line to a file opened with
``O_APPEND``, then ``fsync``: what a call has written is there after a kill. Two processes on the same
folder write whole lines that never mix; each takes in the other's messages with ``catch_up``, as
further branches of the tree. What one process deletes while the other still writes to it is written
again by the other, whole; ``session_file`` has the rules by which nothing is lost.

A store belongs to one thread; ``keep`` may be called from any.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from chatkv.chat import disk
from chatkv.chat.reader import file_name, read
from chatkv.chat.records import Record, draft_record, dump, message_record
from chatkv.chat.session_file import SessionFile, add_missing
from chatkv.chat.session_files import DELETED, SessionFiles
from chatkv.chat.settings import Settings
from chatkv.chat.tree import Conversation, Message, clean_name
from chatkv.paths import packaged
from chatkv.text import one_line

_FORK_SUFFIX = re.compile(r" ⑂\d+$")


class SessionStore(SessionFiles):
    """All sessions of ``folder``. The folder is made when the first session is.

    Every method that writes raises ChatError (one line) when it can't; the change stays in memory
    and goes out with the next write that works.
    """

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

    def adopt(
        self, example: Conversation, with_draft: bool = False, created: datetime | None = None
    ) -> Conversation:
        """A session of one's own with everything that is in ``example``; ``created`` None: now."""
        own = Conversation(name=example.given_name, system=example.system, created=created)
        own.sampling = dict(example.sampling)
        for message in example.messages.values():
            own.add(message)
        own.head = example.head
        if with_draft:
            own.draft, own.draft_for = example.draft, example.draft_for
        return self._write_new(own)

    def append(self, conv: Conversation, message: Message) -> None:
        """Save ``message``; it is put into ``conv`` first unless it is there already."""
        if message.id not in conv.messages:
            conv.add(message)
        self._write(conv, message_record(message))

    def keep(self, conv: Conversation, message: Message) -> None:
        """Write a message before ``append`` puts it into ``conv``: at once, without waiting for the disk.

        It outlives a kill of this process from then on, and a power cut after ``append``, which also tells
        what went wrong here. May be called from any thread.
        """
        file = self._files.get(conv)
        if file is not None and not self.unkept:
            with suppress(OSError):
                file.keep(message)

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
        self._write(conv, draft_record(conv))

    def delete(self, conv: Conversation) -> None:
        """Move the file into ``deleted/``, from where ``undelete`` brings it back."""
        file = self._of(conv)
        if self.unkept:
            file.path = self.folder / DELETED / file.home.name
            return
        try:
            file.move_into(self.folder / DELETED)
        except OSError as error:
            raise disk.cannot("move", file.path, error) from error

    def undelete(self, conv: Conversation) -> Conversation:
        """Bring back a session deleted through this store. Returns it, or the one that is it by now.

        Where another process has gone on in it meanwhile, both are one again.
        """
        file = self._of(conv)
        there = next((it for it in self._files.values() if it is not file and it.path == file.home), None)
        if there is not None:
            with suppress(OSError):  # what others have said just when it was deleted
                file.catch_up(write=False)
            missing = add_missing(there.conv, conv.messages.values())
            self._write(there.conv, *map(message_record, missing), {"chatkv": "head", "id": there.conv.head})
            del self._files[conv]
            return there.conv
        if self.unkept:
            file.path = file.home
            return conv
        try:
            file.move_home()
        except OSError as error:
            raise disk.cannot("move", file.path, error) from error
        return conv

    @staticmethod
    def examples() -> list[Conversation]:
        """The shipped example sessions; read-only: ``adopt`` one to talk in it."""
        return [read(path).conversation for path in sorted(packaged("sessions").glob("*.jsonl"))]

    def _fork_name(self, conv: Conversation) -> str:
        base = one_line(_FORK_SUFFIX.sub("", conv.name), 50)
        taken = {other.name for other in self.conversations}
        return next(name for n in range(1, len(taken) + 2) if (name := f"{base} ⑂{n}") not in taken)

    def unsaved(self, conv: Conversation) -> bool:
        """Whether something of it could not be written yet."""
        file = self._files.get(conv)
        return file is not None and bool(file.pending)

    def save(self, conv: Conversation) -> None:
        """Write what could not be written before."""
        if self.unsaved(conv):
            self._write(conv)

    def copy_to(self, conv: Conversation, folder: Path) -> None:
        """Write all of ``conv`` into a file of another folder. Raises OSError."""
        disk.write_new(folder / file_name(conv), dump(conv))

    def _write_new(self, conv: Conversation) -> Conversation:
        file = SessionFile(conv, self.folder / file_name(conv))
        if not self.unkept:
            try:
                file.create()
            except OSError as error:
                raise disk.cannot("make a session in", self.folder, error) from error
        self._files[conv] = file
        return conv

    def _write(self, conv: Conversation, *records: Record) -> None:
        file = self._of(conv)
        if self.unkept:
            return
        try:
            file.write(*records)
        except OSError as error:
            raise disk.cannot("save to", file.path, error) from error
