"""A small world for sessions: two processes over one folder, and a person with a backup and a sync tool.

Whatever one of them does may be cut off or interrupted by another's doing before any of its system calls.
``World.check`` holds what must be true at the end, whatever the order was.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from chatkv.chat.errors import ChatError
from chatkv.chat.reader import read
from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation, Message

CALLS = ("open", "stat", "fstat", "pread", "write", "fsync", "link", "replace", "unlink", "mkdir", "close")
"""System calls before which something may happen."""


class Killed(BaseException):
    """The process is over: nothing that it would do next is done."""


@contextmanager
def before_call(number: int, do: Callable[[], object], kill: bool) -> Iterator[list[int]]:
    """Before system call ``number`` (from 0) do ``do``; ``kill``: no system call works from there on.

    Yields how many calls there were.
    """
    count, busy = [0], [False]

    def wrapped(real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            if busy[0]:
                return real(*args, **more)
            at, count[0] = count[0], count[0] + 1
            if at == number:
                busy[0] = True
                try:
                    do()
                finally:
                    busy[0] = False
            if kill and at >= number:
                if name == "write" and at == number:
                    real(args[0], args[1][: len(args[1]) // 2])  # torn
                raise Killed
            return None if name == "fsync" else real(*args, **more)

        return call

    with mock.patch.multiple(os, **{name: wrapped(getattr(os, name), name) for name in CALLS}):
        yield count


class Process:
    """A chatkv: its store, what it has open, and the answers that its screen has not taken in yet."""

    def __init__(self, folder: Path) -> None:
        self.store = SessionStore(folder)
        self.store.load_all()
        self.deleted: list[Conversation] = []
        self.ended: list[tuple[Conversation, Message]] = []

    @property
    def memory(self) -> dict[str, str]:
        """Message → text of all it knows, also of what it has deleted."""
        convs = [*self.store.conversations, *self.deleted]
        known = {m.id: m.text for conv in convs for m in conv.messages.values()}
        return known | {m.id: m.text for _, m in self.ended}


class World:
    """``do`` has one thing done by one of them; ``owed``: what must be in some file at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._texts = (f"text {n}" for n in itertools.count())
        self.owed: dict[str, str] = {}
        self._hurt: set[str] = set()
        """Owed, and taken from the disk by a person or a tool since it was last seen there."""
        self._aside: bytes | None = None
        self.processes: dict[str, Process | None] = {"a": Process(folder)}
        self.do("a", "create")
        self.do("a", "say")
        (self._path,) = folder.glob("*.jsonl")
        """The session's file, which may be away."""
        self.backup = self._path.read_bytes()
        self.processes["b"] = Process(folder)
        self.do("a", "say")
        self.do("b", "look")
        self.do("b", "say")
        self.do("a", "look")

    def do(
        self, who: str, what: str, inner: Callable[[], object] | None = None, at: int = -1, kill: bool = False
    ) -> int:
        """``who`` ("a", "b", or "x" for a tool) does ``what``; before its system call ``at``, ``inner``
        happens, and with ``kill`` it is over then. Returns how many system calls there were.
        """
        process, killed = self.processes.get(who), False
        with before_call(at, inner or (lambda: None), kill) as count:
            try:
                if who == "x":
                    getattr(self, "tool_" + what)()
                elif process is not None:
                    with suppress(ChatError):  # told; it stays in memory
                        getattr(self, "do_" + what)(process)
            except Killed:
                killed = True
        if killed:
            self.kill(who)
        elif process is not None:
            self.owed |= process.memory
        else:
            self._hurt |= self.owed.keys() - self.on_disk().keys()
            self._forgive()
        return count[0]

    def start(self, who: str) -> None:
        """Start it again where it is over."""
        if self.processes[who] is None:
            self.processes[who] = Process(self.folder)

    def kill(self, who: str) -> None:
        """It is over, with all its memory."""
        self.processes[who] = None
        self._forgive()

    def _forgive(self) -> None:
        """What a tool has taken from the disk, and nobody who lives remembers, is beyond anybody's help."""
        kept = self.on_disk()
        self._hurt -= kept.keys()
        for process in filter(None, self.processes.values()):
            kept |= process.memory
        self.owed = {id: text for id, text in self.owed.items() if id in kept or id not in self._hurt}

    # --- what a process does ----------------------------------------------------------------------

    def do_create(self, process: Process) -> None:
        process.store.create()

    def do_say(self, process: Process) -> None:
        for conv in process.store.conversations[:1] or process.deleted[-1:]:
            process.store.append(conv, conv.append("user", next(self._texts)))

    def do_name(self, process: Process) -> None:
        for conv in process.store.conversations[:1]:
            process.store.rename(conv, next(self._texts))

    def do_end(self, process: Process) -> None:
        """The engine has ended an answer."""
        for conv in process.store.conversations[:1]:
            twin = Conversation()
            answer = twin.append("assistant", next(self._texts), token_ids=(1, 2))
            message = Message(answer.id, conv.head, "assistant", answer.text, answer.token_ids)
            process.store.keep(conv, message)
            process.ended.append((conv, message))

    def do_take(self, process: Process) -> None:
        """The screen takes in the answers that have ended."""
        while process.ended:
            conv, message = process.ended[0]
            if message.id not in conv.messages:
                conv.add(message)
            process.ended.pop(0)
            process.store.append(conv, message)

    def do_look(self, process: Process) -> None:
        process.store.load_new()
        for conv in process.store.conversations:
            with suppress(ChatError):
                process.store.catch_up(conv)
                process.store.save(conv)

    def do_delete(self, process: Process) -> None:
        self.do_take(process)
        for conv in process.store.conversations[:1]:
            process.store.delete(conv)
            process.deleted.append(conv)

    def do_undo(self, process: Process) -> None:
        if process.deleted:
            process.store.undelete(process.deleted[-1])
            process.deleted.pop()

    def do_restart(self, process: Process) -> None:
        """It quits as it should, and starts again."""
        self.do_take(process)
        self.do_look(process)
        process.store, process.deleted = SessionStore(self.folder), []
        process.store.load_all()

    # --- what a person, a backup or a sync tool does ---------------------------------------------

    def tool_restore(self) -> None:
        """An older copy takes the file's place."""
        part = self.folder / "restored"
        part.write_bytes(self.backup)
        os.replace(part, self._path)

    def tool_restore_in_place(self) -> None:
        """An older copy is written over it."""
        self._path.write_bytes(self.backup)
        self._tick()

    def tool_cut(self) -> None:
        """It becomes shorter, in the middle of a line."""
        if self._path.exists():
            os.truncate(self._path, os.path.getsize(self._path) * 2 // 3)
            self._tick()

    def tool_empty(self) -> None:
        self._path.write_bytes(b"")
        self._tick()

    def tool_copy(self) -> None:
        """The same in another inode."""
        if self._path.exists():
            part = self.folder / "copied"
            part.write_bytes(self._path.read_bytes())
            os.replace(part, self._path)

    def tool_vanish(self) -> None:
        if self._path.exists():
            self._aside = self._path.read_bytes()
            os.unlink(self._path)

    def tool_come_back(self) -> None:
        if self._aside is not None:
            self._path.write_bytes(self._aside)

    def tool_lose_a_line(self) -> None:
        if self._path.exists():
            lines = self._path.read_bytes().splitlines(keepends=True)
            self._path.write_bytes(b"".join(lines[:1] + lines[2:]))
            self._tick()

    def _tick(self) -> None:
        """The file system's clock is coarse: without it a change right after another may have its time."""
        state = os.stat(self._path)
        os.utime(self._path, ns=(state.st_atime_ns, state.st_mtime_ns + 10_000_000))

    # --- what must be true ------------------------------------------------------------------------

    def on_disk(self) -> dict[str, str]:
        """Message → text in all files."""
        found: dict[str, str] = {}
        for path in (*self.folder.glob("*.jsonl"), *self.folder.glob("deleted/*.jsonl")):
            found |= {m.id: m.text for m in read(path).conversation.messages.values()}
        return found

    def check(self) -> None:
        """When those who live have looked around: all that is owed is there, and in what they show."""
        for _ in range(3):
            for who, process in self.processes.items():
                if process is not None:
                    self.do(who, "take")
                    self.do(who, "look")
        found = self.on_disk()
        lost = {id: text for id, text in self.owed.items() if found.get(id) != text}
        assert not lost
        for path in (*self.folder.glob("*.jsonl"), *self.folder.glob("deleted/*.jsonl")):
            for problem in read(path).problems:
                assert "already used" not in str(problem), problem
        for process in filter(None, self.processes.values()):
            for conv in process.store.conversations:
                there = [read(path).conversation for path in self.folder.glob("*.jsonl")]
                same = [it for it in there if it.id == conv.id]
                assert not same or set(same[0].messages) == set(conv.messages)


DOINGS = [(who, what) for who in "ab" for what in ("say", "end", "take", "look", "delete", "undo", "restart")]
TOOLS = [
    ("x", what)
    for what in ("restore", "restore_in_place", "cut", "empty", "copy", "vanish", "come_back", "lose_a_line")
]
