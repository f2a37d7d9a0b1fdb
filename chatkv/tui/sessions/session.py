"""A session as the app holds it: its conversation, the running answer, what was typed but not sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chatkv.chat.tree import Conversation, Message, Role
from chatkv.engine.messages import Turn
from chatkv.tui.sessions.running import Running


@dataclass(frozen=True, slots=True)
class Notice:
    """A message that got no answer, and why: ``text`` is what the person wrote, ``reason`` one line."""

    text: str
    reason: str


@dataclass(slots=True, eq=False)
class Session:
    """One open session. ``key`` names it towards the engine and in events, and never changes."""

    key: str
    conversation: Conversation
    stored: bool = False
    """True once the store has a file of it: an empty session leaves none."""
    running: Running | None = None
    """The answer on its way that is on the screen."""
    answers: list[Running] = field(default_factory=list)
    """All that were asked for at once, in order; that one among them. Some may be over before the others."""
    unread: bool = False
    elsewhere: bool = False
    """It is on the screen of another chatkv, too."""
    came: int = 0
    """Messages from another chatkv of which nothing has been said yet …"""
    came_aside: bool = False
    """… and whether they are on a branch beside what is on the screen."""
    told: int = 0
    """What has been said of them since the person last turned to it: 1 that they come in, 2 that they do so
    on a branch."""
    gone: bool = False
    """Its file has been removed by somebody else, and the person has been told."""
    draft: str = ""
    notice: Notice | None = None
    editing: str | None = None
    """Id of the user message that the next one sent replaces."""
    replaced: str | None = None
    """Where the head was before the question on its way took another's place; it goes back there if
    nothing comes of it."""
    requests: dict[str, int] = field(default_factory=dict)
    """Id of an answer of this run → the engine's request that made it."""
    notes: dict[str, str] = field(default_factory=dict)
    """Id of a message → a line about it that is not kept, like what came of verifying it."""
    sent: list[str] = field(default_factory=list)
    """What the prompt's history walks through."""

    def begin(self, answers: list[Running]) -> None:
        """These are on their way; the first is on the screen."""
        self.answers, self.running = answers, answers[0]

    def end(self) -> list[Running]:
        """None is on its way any more; returns those that were."""
        ended, self.answers, self.running = self.answers, [], None
        return ended

    def number(self, request: int) -> None:
        """The engine calls the first answer ``request``, the others have the numbers behind it."""
        for number, each in enumerate(self.answers, request):
            each.request = number

    def answer(self, request: int) -> Running | None:
        """The one that the engine calls ``request``, if it is on its way."""
        return next((each for each in self.answers if each.request == request and not each.over), None)

    @property
    def place(self) -> tuple[int, int]:
        """(which version of the answer the one on the screen is, from 1; how many versions there are).

        The answers on their way come behind those that the question had before. (0, 0): none is on its way.
        """
        if self.running is None:
            return 0, 0
        ours = {each.message.id for each in self.answers if each.message is not None}
        before = sum(message.id not in ours for message in self.conversation.children(self.running.parent))
        return before + self._at + 1, before + len(self.answers)

    @property
    def _at(self) -> int:
        return next(at for at, each in enumerate(self.answers) if each is self.running)

    def turn(self, by: int) -> bool:
        """Show the next or previous of those on their way; False, and nothing changes, at an end."""
        at = self._at + by
        if 0 <= at < len(self.answers):
            self.running = self.answers[at]
            return True
        return False

    @property
    def name(self) -> str:
        """The conversation's name."""
        return self.conversation.name

    @property
    def head(self) -> Message | None:
        """The message a new one is put behind."""
        conversation = self.conversation
        return None if conversation.head is None else conversation.messages[conversation.head]

    @property
    def last_used(self) -> float:
        """When the newest message on the way to the head was made, else the session; seconds since 1970."""
        head = self.head
        made = None if head is None else head.meta.get("time")
        if isinstance(made, int | float) and not isinstance(made, bool):
            return float(made)
        try:
            return self.conversation.created.timestamp()
        except (OverflowError, ValueError):  # at either end of the calendar
            return 0.0

    @property
    def last_answer(self) -> Message | None:
        """The newest answer on the way to the head."""
        return self._newest("assistant")

    @property
    def stands_at(self) -> int | None:
        """The request that made the newest answer on the way to the head; None where that was not in this
        run, or another is on its way.
        """
        answer = self.last_answer if self.running is None else None
        return self.requests.get(answer.id) if answer is not None else None

    @property
    def last_question(self) -> Message | None:
        """The newest user message on the way to the head."""
        return self._newest("user")

    def _newest(self, role: Role) -> Message | None:
        at = self.head
        while at is not None and at.role != role:
            at = None if at.parent is None else self.conversation.messages[at.parent]
        return at

    @property
    def hit_percent(self) -> int | None:
        """Share of the last answer's prompt that came out of the cache; None if unknown."""
        meta: Mapping[str, Any] = answer.meta if (answer := self.last_answer) else {}
        cached, prompt = meta.get("cached"), meta.get("prompt_tokens")
        if not isinstance(cached, int) or not isinstance(prompt, int) or prompt <= 0:
            return None
        return max(0, min(100, round(100 * cached / prompt)))

    def turns(self, model: str, head: str | None = None) -> tuple[Turn, ...]:
        """The conversation up to ``head`` (None: its own) as the engine wants it.

        An answer goes in with the ids that ``model`` sampled, so that its prefix matches exactly; without
        them, with what was thought before it.
        Questions that got no answer are joined with the next one: many chat templates insist that
        user and assistant take turns.
        """
        turns: list[Turn] = []
        if self.conversation.system is not None:
            turns.append(Turn("system", self.conversation.system))
        for message in self.conversation.path(head):
            if turns and message.role == "user" and turns[-1].role == "user":
                turns[-1] = Turn("user", f"{turns[-1].text}\n\n{message.text}")
            else:
                ids = message.ids_for(model)
                thinking = message.thinking if ids is None else ""
                turns.append(Turn(message.role, message.text, ids, thinking))
        return tuple(turns)
