"""One conversation and its file, which other processes write to, move away, bring back or replace.

Nothing that was said is lost by it:

- What is in the file and not in memory joins the tree; what is in memory and not in the file is added to it.
- A record is added to whatever file has the name; was it moved or replaced in that moment, it is added again.
- No file is ever written over or removed: a new one, or one that comes back, takes a name that is free, and
  where there is none, what it holds is added to the one that is there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from chatkv.chat import disk
from chatkv.chat.disk import State
from chatkv.chat.reader import Loaded, parse
from chatkv.chat.records import Record, draft_record, dump, message_record, session_record
from chatkv.chat.thought import apart
from chatkv.chat.tree import Conversation, Message, new_id

_TRIES = 20
"""How often a file may be moved or replaced just while a record is added to it."""


@dataclass(slots=True)
class _Known:
    """The beginning of a file that memory has all of, and the file when it was last seen here.

    ``state`` None: it is not known which file that is.
    """

    state: State | None
    size: int
    digest: hashlib.blake2b

    @classmethod
    def all_of(cls, data: bytes, state: State | None) -> _Known:
        return cls(state, len(data), hashlib.blake2b(data))

    @property
    def all(self) -> bool:
        """Whether memory had all of it then."""
        return self.state is not None and self.state.size == self.size

    def begins(self, data: bytes) -> bool:
        """Whether ``data`` is what is known, maybe with more behind it."""
        beginning = hashlib.blake2b(memoryview(data)[: self.size])
        return len(data) >= self.size and beginning.digest() == self.digest.digest()


class SessionFile:
    """Where a conversation lies and what of it is not on disk yet.

    ``keep`` may be called from any thread; all else, and every change of ``conv``, is one thread's.
    """

    def __init__(self, conv: Conversation, path: Path) -> None:
        self.conv = conv
        self.path = self.home = path
        """Where it is (a deleted one is elsewhere), and where it belongs."""
        self.pending: list[Record] = []
        """Records that are not written yet; they go out before the next one."""
        self._unknown: list[Record] = []
        self._has_header = True
        self._orphans: dict[str, str] = {}
        """Message → its parent, which was never seen: with that one it is written."""
        self._known = _Known.all_of(b"", None)
        self._ahead: dict[str, Message] = {}
        """Kept before they joined the conversation."""
        self._unsynced: list[tuple[int, list[Record]]] = []
        """Descriptors with what was written through them."""
        self._elsewhere: dict[Path, tuple[State, set[str]]] = {}
        """Other files with messages of it, looked at when it had vanished."""
        self._lock = threading.RLock()

    @classmethod
    def read(cls, path: Path) -> tuple[SessionFile, Loaded]:
        """What is there, and what is wrong with it. Raises OSError."""
        data, state = disk.load(path)
        there = parse(path, data)
        file = cls(there.conversation, path)
        file._unknown, file._has_header, file._orphans = there.unknown, there.has_header, there.orphans
        file._known = _Known.all_of(data, state)
        return file, there

    @property
    def deleted(self) -> bool:
        """Whether it was moved away from here."""
        return self.path != self.home

    def create(self) -> None:
        """Write all of it into a new file. Raises OSError."""
        with self._lock:
            self._write_new(self.path)

    def keep(self, message: Message) -> None:
        """Write a message that will join the conversation; it is there after a kill of this process.

        A power cut spares it from the next ``write`` on. Raises OSError; it is pending then.
        """
        with self._lock:
            self._ahead[message.id] = message
            self.pending.append(message_record(message))
            self._put()

    def write(self, *records: Record) -> None:
        """Write what is pending, and these. Raises OSError; they are pending then."""
        with self._lock:
            self.pending += [record for record in records if not self._is_ahead(record)]
            self._ahead = {id: m for id, m in self._ahead.items() if id not in self.conv.messages}
            self._put()
        self._sync()  # others need not wait for the disk

    def _is_ahead(self, record: Record) -> bool:
        return record["chatkv"] == "message" and record["id"] in self._ahead

    def catch_up(self, write: bool = True) -> str | None:
        """Take in what the file has and memory has not; write (if ``write``) what it should have and has not.

        Messages join the tree; name, system prompt and sampling are taken where others have only added to
        what was known, else those in memory stay. The head stays. Returns the head that the file has,
        where anything has changed, else None. Raises OSError where it can't be read, or is gone.
        """
        with self._lock:
            found = disk.state(self.path)
            if self._known.all and found == self._known.state:
                return None
            data, state = disk.load(self.path)
            there = parse(self.path, data)
            grown = self._known.begins(data)
            missing = list(self._missing(there, ours=not grown))
            self._known = _Known.all_of(data, state)
            self._has_header = there.has_header
            missing += self._take_in(there, settings=grown)
            if missing and write:
                self.pending = missing + self.pending
                with suppress(OSError):  # it stays pending
                    self._put()
                    self._sync()
            return there.conversation.head

    def move_into(self, folder: Path) -> None:
        """Move the file there; a write that fails meanwhile stays pending. Raises OSError."""
        with self._lock:
            with suppress(OSError):
                self._put()
                self._sync()
            try:
                self.path = disk.move_into(self.path, folder)
            except FileNotFoundError:
                self._write_into(folder)
            with suppress(OSError):
                if disk.state(self.path) != self._known.state:
                    self._mend()

    def move_home(self) -> None:
        """Bring it back. Where another file has come there, what this one holds is added to that one, and
        this one stays where it is. Raises OSError.
        """
        with self._lock:
            with suppress(OSError):  # gone from there: memory has all of it
                self.catch_up()
            source, self.path = self.path, self.home
            try:
                for _ in range(_TRIES):
                    with suppress(FileNotFoundError):  # another process has just taken away what was there
                        if not source.exists() or not self._link_home(source):
                            self._write_home()
                        return
                raise _busy()
            except OSError:
                self.path = source
                raise

    def keep_aside(self, folder: Path) -> None:
        """The file has vanished: have all of it in ``folder``, unless it is there. Raises OSError."""
        with self._lock:
            known, self._elsewhere = self._elsewhere, {}
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name.startswith(self.home.stem):
                    with suppress(OSError):
                        state = disk.state(path)
                        before, ids = known.get(path, (None, set[str]()))
                        if before != state:
                            data, state = disk.load(path)
                            ids = set(parse(path, data).conversation.messages)
                        self._elsewhere[path] = state, ids
            if not set().union(*(ids for _, ids in self._elsewhere.values())).issuperset(self.conv.messages):
                disk.write_new(next(disk.free_names(self.home, folder)), self._all())

    # --- one step each; the lock is held ----------------------------------------------------------

    def _put(self) -> None:
        """Add what is pending to the file, or write all of it where there is none. Raises OSError."""
        if not self.pending:
            return
        with suppress(OSError):
            if self._is_cut(disk.state(self.path)):
                self._reckon()
        if not self._has_header:
            self.pending.insert(0, session_record(self.conv))
            self._has_header = True
        for _ in range(_TRIES):
            try:
                added = disk.add(self.path, self.pending)
            except FileNotFoundError:
                with suppress(FileExistsError):  # it has come back in this moment
                    self._write_new(self.path)
                    return
                continue
            if not added.named:
                os.close(added.descriptor)
                continue
            self._unsynced.append((added.descriptor, self.pending))
            self.pending = []
            self._note(added)
            return
        raise _busy()

    def _note(self, added: disk.Added) -> None:
        """What was added is known, where it stands behind what was."""
        known, size = self._known, added.before.size + len(added.data)
        if known.state == added.before and added.after.size == size:
            if known.all:
                known.digest.update(added.data)
                known.size = size
            known.state = added.after
        elif added.after.size < size or self._is_cut(added.before):
            with suppress(OSError):  # ``catch_up`` finds it out, too
                self._mend()

    def _is_cut(self, found: State) -> bool:
        """Whether it is another file than was known, or a shorter one."""
        known = self._known
        if known.state is None:
            return False
        return not found.same_file(known.state) or found.size < known.state.size

    def _mend(self) -> None:
        """Add what memory has and the file has not. Raises OSError."""
        self._reckon()
        self._put()

    def _reckon(self) -> None:
        """What memory has and the file has not is pending, before what is. Raises OSError."""
        data, state = disk.load(self.path)
        there = parse(self.path, data)
        missing = list(self._missing(there, ours=True))
        # All that is there is news from here on, and our name, head and so on stand last.
        self._known = _Known.all_of(b"", state)
        self._has_header = there.has_header
        self.pending = missing + self.pending

    def _sync(self) -> None:
        """Have what was written survive a power cut. Raises OSError; it is pending again then."""
        with self._lock:
            unsynced, self._unsynced = self._unsynced, []
        failed: OSError | None = None
        for descriptor, records in unsynced:
            try:
                os.fsync(descriptor)
            except OSError as error:
                failed = error
                with self._lock:
                    self.pending = records + self.pending
            finally:
                os.close(descriptor)
        if failed is not None:
            raise failed

    def _write_new(self, path: Path) -> None:
        """Have all of it in a new file. Raises OSError, FileExistsError where there is one."""
        data = disk.write_new(path, self._all())
        self.pending, state = [], None
        with suppress(OSError):
            state = disk.state(path)
        known = state is not None and state.size == len(data)  # else others have been there already
        self._known = _Known.all_of(data, state if known else None)

    def _all(self) -> Iterator[Record]:
        """Every record of a new file."""
        yield from map(self._original, dump(self.conv))
        yield from map(message_record, self._only_ahead())
        yield from self._unknown

    def _original(self, record: Record) -> Record:
        parent = self._orphans.get(record["id"]) if record["chatkv"] == "message" else None
        return record if parent is None else {**record, "parent": parent}

    def _only_ahead(self) -> list[Message]:
        return [message for message in self._ahead.values() if message.id not in self.conv.messages]

    def _missing(self, there: Loaded, ours: bool) -> Iterator[Record]:
        """What memory has and ``there`` has not; ``ours``: with name, head and so on where they differ."""
        mine, theirs = self.conv, there.conversation
        pending = {record["id"] for record in self.pending if record["chatkv"] == "message"}
        known = theirs.messages.keys() | pending
        # The engine's thread may come here while the conversation's own adds to it: hence the copy.
        missing = [m for m in [*mine.messages.copy().values(), *self._only_ahead()] if m.id not in known]
        yield from map(self._original, map(message_record, missing))
        yield from (record for record in self._unknown if record not in there.unknown)
        if ours:
            if mine.given_name != theirs.given_name and mine.given_name is not None:
                yield {"chatkv": "name", "name": mine.given_name}
            if mine.system != theirs.system:
                yield {"chatkv": "system", "system": mine.system}
            if mine.sampling != theirs.sampling:
                yield {"chatkv": "sampling", "sampling": dict(mine.sampling)}
            if mine.draft and (missing or mine.draft != theirs.draft):
                yield draft_record(mine)
        if missing or (ours and mine.head != theirs.head):
            yield {"chatkv": "head", "id": mine.head}

    def _take_in(self, there: Loaded, settings: bool) -> list[Record]:
        """Returns what is to be written because of it."""
        conv, theirs = self.conv, there.conversation
        head, edited = conv.head, []
        for message in theirs.messages.values():
            ours = conv.messages.get(message.id)
            if ours is None:
                if message.id not in self._ahead:
                    self._join(message)
                    if parent := there.orphans.get(message.id):
                        self._orphans[message.id] = parent
                continue
            if message.id in self._orphans and message.id not in there.orphans:
                if conv.move(message.id, message.parent):
                    del self._orphans[message.id]
                ours = conv.messages[message.id]
            if not _same(apart(ours), message):  # Somebody has edited the file: both stay.
                other = replace(ours, id=new_id())
                conv.messages[message.id] = replace(message, parent=ours.parent)
                conv.add(other)
                edited.append(message_record(other))
        conv.head = head
        self._unknown += [record for record in there.unknown if record not in self._unknown]
        if settings:
            conv.given_name, conv.system, conv.sampling = theirs.given_name, theirs.system, theirs.sampling
        elif conv.given_name is None:
            conv.given_name = theirs.given_name
        return edited

    def _join(self, message: Message) -> None:
        ahead = self._ahead.get(message.parent or "")
        if ahead is not None and ahead.id not in self.conv.messages:
            self.conv.add(ahead)
        self.conv.add(message)

    def _write_into(self, folder: Path) -> None:
        for path in disk.free_names(self.home, folder):
            with suppress(FileExistsError):
                self._write_new(path)
                self.path = path
                return

    def _link_home(self, source: Path) -> bool:
        try:
            disk.move_back(source, self.home)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                return False  # a file system without hard links
            raise
        return True

    def _write_home(self) -> None:
        try:
            self.create()
        except FileExistsError:
            self._known = _Known.all_of(b"", None)
            self.catch_up()
            if self.pending:
                self._put()
                self._sync()


def _busy() -> OSError:
    return OSError(errno.EBUSY, "another program moves it again and again")


def _same(one: Message, other: Message) -> bool:
    return (one.text, one.token_ids, one.thinking) == (other.text, other.token_ids, other.thinking)


def add_missing(conv: Conversation, messages: Iterable[Message]) -> list[Message]:
    """Add those that ``conv`` has not, parents first; its head stays. Returns them."""
    head, added = conv.head, [message for message in messages if message.id not in conv.messages]
    for message in added:
        conv.add(message)
    conv.head = head
    return added
