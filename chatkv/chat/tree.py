"""A session: a tree of messages. Editing and regenerating make siblings; nothing is overwritten."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from chatkv.chat.errors import ChatError
from chatkv.chat.settings import Settings
from chatkv.text import one_line

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant")

NAME_LIMIT = 60
"""Characters of a session's name."""
UNNAMED = "new chat"
"""The name of a session that has neither a given name nor a message yet."""
_NAME_WORDS = 6


def new_id() -> str:
    """A new random id for a session or a message: 12 hexadecimal digits."""
    return uuid.uuid4().hex[:12]


def clean_name(name: str) -> str:
    """``name`` in one printable line of at most ``NAME_LIMIT`` characters.

    Raises:
        ChatError: nothing is left of it.
    """
    line = one_line(name, NAME_LIMIT)
    if not line:
        raise ChatError("a session's name can't be empty; type at least one visible character")
    return line


@dataclass(frozen=True, slots=True)
class Message:
    """One message; it never changes once made.

    ``parent`` None: the first message of a conversation. ``text`` is what was typed or generated,
    unchanged: show it through ``chatkv.text.printable``. ``token_ids`` are the ids the model sampled
    (answers only). ``meta`` is JSON-ready: ``cached``, ``copied``, ``computed``, ``prompt_tokens``,
    ``ttft_s``, ``decode_s``, ``reason``, ``why`` (in words), ``model``, ``time``, ``thinking``,
    whichever are known.
    """

    id: str
    parent: str | None
    role: Role
    text: str
    token_ids: tuple[int, ...] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def thinking(self) -> str:
        """What was thought before an answer; empty: nothing, or nothing that is known."""
        thinking = self.meta.get("thinking")
        return thinking if isinstance(thinking, str) else ""

    def ids_for(self, model: str) -> tuple[int, ...] | None:
        """``token_ids`` if ``model`` sampled them (``meta["model"]``); another model's mean other text."""
        return self.token_ids if self.meta.get("model") == model else None


class Conversation:
    """A session in memory. ``head`` is the message a new one is put behind (None: at the start).

    ``messages`` is in order of making, parents before children. Changing a conversation here does
    not save it: ``SessionStore`` has the saving form of each change.
    """

    def __init__(
        self,
        *,
        id: str | None = None,
        name: str | None = None,
        created: datetime | None = None,
        system: str | None = None,
        forked_from: tuple[str, str] | None = None,
    ) -> None:
        self.id = id or new_id()
        self.given_name = None if name is None else clean_name(name)
        self.created = created or datetime.now(UTC)
        self.system = system
        self.sampling: Settings = {}
        """What differs from how ``chatkv run`` was started."""
        self.draft = ""
        """What was typed and not sent when the program ended."""
        self.draft_for: str | None = None
        """The message whose place the draft is to take."""
        self.forked_from = forked_from
        """(session id, message id) this one was forked from."""
        self.messages: dict[str, Message] = {}
        self.head: str | None = None
        self._children: dict[str | None, list[str]] = {}

    @property
    def name(self) -> str:
        """The given name, else the first words of the first user message, else ``UNNAMED``."""
        if self.given_name is not None:
            return self.given_name
        for message in self.messages.values():
            if message.role == "user":
                words = one_line(message.text, NAME_LIMIT).split(" ")
                short = " ".join(words[:_NAME_WORDS])
                cut = len(words) > _NAME_WORDS and not short.endswith("…")
                return (short + "…" if cut else short) or UNNAMED
        return UNNAMED

    def append(
        self,
        role: Role,
        text: str,
        *,
        token_ids: Iterable[int] | None = None,
        meta: Mapping[str, Any] | None = None,
        parent: str | None = None,
        id: str | None = None,
    ) -> Message:
        """Put a new message behind ``parent`` (default: the head) and make it the head.

        For another first message, ``set_head(None)`` before.
        """
        ids = None if token_ids is None else tuple(map(int, token_ids))
        behind = self.head if parent is None else parent
        message = Message(id or new_id(), behind, role, text, ids, dict(meta or {}))
        self.add(message)
        return message

    def add(self, message: Message) -> None:
        """Put ``message`` behind its own ``parent`` and make it the head. With parent None it is a new start.

        A user's message ends the draft before it.

        Raises:
            ChatError: its id is taken, or its parent is not here.
        """
        if message.id in self.messages:
            raise ChatError(f"message {message.id} is already in session '{self.name}'")
        if message.parent is not None:
            self._require(message.parent)
        self.messages[message.id] = message
        self._children.setdefault(message.parent, []).append(message.id)
        self.head = message.id
        if message.role == "user":
            self.draft, self.draft_for = "", None

    def move(self, id: str, parent: str | None) -> bool:
        """Put message ``id``, with all behind it, behind ``parent``. False where that can't be."""
        message = self._require(id)
        if parent is not None and (
            parent not in self.messages or any(each.id == id for each in self.path(parent))
        ):
            return False
        self._children[message.parent].remove(id)
        self.messages[id] = replace(message, parent=parent)
        self._children.setdefault(parent, []).append(id)
        moved = [id]
        for each in moved:
            self.messages[each] = self.messages.pop(each)  # parents come before children
            moved += self._children.get(each, ())
        return True

    def set_head(self, id: str | None) -> None:
        """Go on from message ``id`` (None: from the start).

        Raises:
            ChatError: no such message.
        """
        if id is not None:
            self._require(id)
        self.head = id

    def path(self, head: str | None = None) -> list[Message]:
        """The messages from the first to ``head`` (default: the conversation's head)."""
        at = self.head if head is None else head
        out: list[Message] = []
        while at is not None:
            message = self._require(at)
            out.append(message)
            at = message.parent
        out.reverse()
        return out

    def children(self, id: str | None) -> list[Message]:
        """The messages right behind ``id`` (None: the first messages), oldest first."""
        return [self.messages[child] for child in self._children.get(id, ())]

    def siblings(self, id: str) -> list[Message]:
        """All messages with the same parent as ``id``, itself included, oldest first."""
        return self.children(self._require(id).parent)

    def latest(self, id: str) -> str:
        """The end of the branch through ``id``, following the newest child; for switching siblings."""
        while behind := self._children.get(id):
            id = behind[-1]
        return id

    def _require(self, id: str) -> Message:
        try:
            return self.messages[id]
        except KeyError:
            raise ChatError(f"session '{self.name}' has no message {id}") from None
