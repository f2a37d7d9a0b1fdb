"""All open sessions, in order: new ones, forks, copies, and what is deleted and comes back.

The one owner of this state (with its base classes, which keep it on disk and take answers in): widgets show
it, the app calls the verbs here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation
from chatkv.errors import ChatkvError
from chatkv.tui.sessions.answered import AnsweredSessions
from chatkv.tui.sessions.session import Session

ORDERS: dict[str, Callable[[int, Session], Any]] = {
    "opened": lambda number, session: number,
    "newest first": lambda number, session: -session.last_used,
    "name": lambda number, session: session.name.casefold(),
    "hit %": lambda number, session: -(-1 if session.hit_percent is None else session.hit_percent),
}


class SessionBook(AnsweredSessions):
    """What a person does with whole sessions."""

    def __init__(self, store: SessionStore, report: Callable[[str], None], system: str | None = None) -> None:
        super().__init__(store, report, system)
        self.order = "opened"
        """In which the lists show them, one of ``ORDERS``; numbers stay."""

    def forget_requests(self) -> None:
        """The engine that knew them is over; the next one counts from 1 again."""
        for session in (*self.sessions, *(session for _, session in self._deleted)):
            session.requests.clear()
        self.ahead.forget()

    def listed(self) -> list[tuple[int, Session]]:
        """(number, session), in the order of the lists."""
        return sorted(enumerate(self.sessions, 1), key=lambda it: ORDERS[self.order](it[0], it[1]))

    def next_order(self) -> None:
        """The lists' next way to sort."""
        names = list(ORDERS)
        self.order = names[(names.index(self.order) + 1) % len(names)]

    def switch(self, session: Session) -> None:
        """Make it the current one."""
        self.current = session
        session.unread, session.told = False, 0

    def new(self) -> Session:
        """An empty session with the current one's system prompt, made current.

        An unused one is used again. Sampling is as in the current one too.
        """
        system, sampling = self.current.conversation.system, dict(self.current.conversation.sampling)
        for session in self.sessions:
            if session.head is None and not session.stored and not session.draft and not session.running:
                session.conversation.system, session.conversation.sampling = system, sampling
                self.switch(session)
                return session
        session = self._open(Conversation(system=system))
        session.conversation.sampling = sampling
        self.sessions.append(session)
        self.switch(session)
        return session

    def fork(self, session: Session, at: str) -> Session:
        """A new session with the messages up to ``at``, made current. Raises ChatError."""
        self._ensure_stored(session)
        conversation = self._store.fork(session.conversation, at)
        fork = self._open(conversation, stored=True)
        fork.requests = dict(session.requests)
        self.sessions.insert(self.sessions.index(session) + 1, fork)
        self.switch(fork)
        return fork

    @cached_property
    def examples(self) -> list[Conversation]:
        """The shipped example sessions; none, and one line, where they can't be read."""
        try:
            return self._store.examples()
        except OSError as error:
            self._report(f"can't read the example sessions: {error.strerror or error}")
            return []

    def open_example(self, example: Conversation) -> Session:
        """A copy of ``example`` as a session of one's own, made current. Raises ChatError."""
        session = self._open(self._store.adopt(example), stored=True)
        self.sessions.append(session)
        self.switch(session)
        return session

    def take_in(self, conversations: Sequence[Conversation]) -> None:
        """Sessions of one's own with what was imported; the first one is made current. Raises ChatError."""
        taken: list[Session] = []
        try:
            for conversation in conversations:
                taken.append(
                    self._open(self._store.adopt(conversation, created=conversation.created), stored=True)
                )
        finally:
            self.sessions += taken
            if taken:
                self.switch(taken[0])

    def delete(self, session: Session) -> None:
        """Take it away; ``undelete`` brings it back. Its neighbour becomes current where it was.

        What has come of a running answer is kept; its last word will find no session any more.
        """
        self._keep_partial(session, "aborted")
        if any(each.message for each in session.answers):
            self._settle(session, "")
        session.end()
        if session.head is not None and not session.stored:
            with suppress(ChatkvError):  # what could not be saved so far is tried again, where it is now
                self._ensure_stored(session)
        if session.stored:
            self._store.delete(session.conversation)
        at = self.sessions.index(session)
        self.sessions.remove(session)
        self._deleted.append((at, session))
        if not self.sessions:
            self.sessions.append(self._open(Conversation(system=self._system)))
        if self.current is session:
            self.switch(self.sessions[min(at, len(self.sessions) - 1)])

    def undelete(self) -> Session | None:
        """Bring back the session deleted last and make it current; None when there is none.

        Where another chatkv went on in it, so that it came back already, that one has all of it now.
        """
        if not self._deleted:
            return None
        at, session = self._deleted[-1]
        if session.stored:
            live = self._store.undelete(session.conversation)
            session = next((s for s in self.sessions if s.conversation is live), session)
        self._deleted.pop()
        if session not in self.sessions:
            self.sessions.insert(min(at, len(self.sessions)), session)
        self.switch(session)
        return session
