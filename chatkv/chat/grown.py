"""Makes a conversation of another program's messages: a chain of them, or a tree.

What can't be kept goes, and what is behind it moves up. Messages in a row of one speaker become one, because
chat templates insist that user and assistant take turns. System messages before anything else was said become
the session's system prompt, joined with a blank line; a later one stays where it is, as a message of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chatkv.chat.said import LeaveOut
from chatkv.chat.thought import Said
from chatkv.chat.tree import Conversation, Role

BEHIND = "\n\n"


class Node(NamedTuple):
    """A message at its place. ``what`` None: nothing of it can be kept. ``time``: seconds since 1970."""

    id: str
    parent: str | None
    what: tuple[Role, Said] | None
    time: float | None = None


@dataclass(slots=True, eq=False)
class _Run:
    """Messages in a row of one speaker, up to one: ``before`` is of the same row, ``behind`` another's."""

    role: Role
    said: Said
    time: float | None
    before: _Run | None = None
    behind: _Run | None = None
    message: str | None = None
    goes_on: bool = False
    """A later message of the row is there."""


class Grower:
    """Makes one conversation; ``budget`` bounds the characters that its messages may have together."""

    def __init__(self, budget: int, leave_out: LeaveOut) -> None:
        self.conversation = Conversation()
        self.budget = budget
        self._leave_out = leave_out

    def grow(self, nodes: Sequence[Node], head: str | None) -> None:
        """Take in ``nodes``, a parent's before those behind it; ``head`` None: the last one."""
        runs: dict[str, _Run | None] = {}
        ends: dict[str, None] = {}
        if head is None and nodes:
            head = nodes[-1].id
        leading = self._leading(nodes, head)
        for node in nodes:
            before = None if node.parent is None else runs[node.parent]
            if node.parent is not None:
                ends.pop(node.parent, None)
            ends[node.id] = None
            runs[node.id] = before if node.what is None or node.id in leading else _behind(before, node)
        # In the order of the file: a branch's messages are made when its end comes up.
        for id in ends:
            run = runs[id]
            if run is not None and not run.goes_on:
                self._make(run)
        at = None if head is None else runs.get(head)
        self.conversation.head = None if at is None else self._make(at)

    def _leading(self, nodes: Sequence[Node], head: str | None) -> set[str]:
        """Make the system prompt out of what leads to ``head``; the ids of the messages that it then holds.

        The same text at the start of another branch is held by it, too.
        """
        begun: dict[str | None, bool] = {None: False}
        first: list[Node] = []
        for node in nodes:
            spoken = node.what is not None and node.what[0] != "system"
            begun[node.id] = begun[node.parent] or spoken
            if node.what is not None and not begun[node.id]:
                first.append(node)
        parents = {node.id: node.parent for node in nodes}
        path: set[str] = set()
        at = head if head in parents else None
        while at is not None:
            path.add(at)
            at = parents[at]
        texts = [_text(node) for node in first if node.id in path]
        if texts:
            given = self.conversation.system
            self.conversation.system = BEHIND.join(filter(None, (given, *texts)))
        held = set(texts)
        return {node.id for node in first if node.id in path or _text(node) in held}

    def _make(self, run: _Run) -> str | None:
        """The id of the message that ``run`` is, which is made with those before it; None: too long."""
        missing: list[_Run] = []
        at: _Run | None = run
        while at is not None and at.message is None:
            missing.append(at)
            at = at.behind
        id = None if at is None else at.message
        for each in reversed(missing):
            said = _joined(each)
            self.budget -= len(said.text) + len(said.thinking)
            if self.budget < 0:
                self._leave_out("message| beyond what a file may hold")
                return id
            meta: dict[str, Any] = {"imported": True, **said.meta}
            if each.time is not None:
                meta["time"] = each.time
            self.conversation.head = id
            id = each.message = self.conversation.append(each.role, said.text, meta=meta).id
        return id


def _behind(before: _Run | None, node: Node) -> _Run:
    assert node.what is not None, "what is left out has no place"
    role, said = node.what
    if before is None or before.role != role or role == "system":
        return _Run(role, said, node.time, behind=before)
    before.goes_on = True
    return _Run(role, said, node.time or before.time, before, before.behind)


def _joined(run: _Run) -> Said:
    """All that was said in a row."""
    parts: list[Said] = []
    at: _Run | None = run
    while at is not None:
        parts.append(at.said)
        at = at.before
    parts.reverse()
    text = BEHIND.join(it.text for it in parts if it.text)
    thinking = BEHIND.join(it.thinking for it in parts if it.thinking)
    return Said(text, thinking, next((it.around for it in parts if it.around is not None), None))


def _text(node: Node) -> str:
    return "" if node.what is None else node.what[1].text
