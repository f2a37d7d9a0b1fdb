"""Questions and answers: from what was asked to what is kept of it, whatever becomes of the answer."""

from __future__ import annotations

import time
from collections.abc import Callable

from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Message, new_id
from chatkv.engine.messages import Delta, Finished
from chatkv.tui.sessions.kept import KeptSessions
from chatkv.tui.sessions.running import Running
from chatkv.tui.sessions.session import Notice, Session
from chatkv.tui.sessions.write_ahead import WriteAhead, answer, made, says

_UNANSWERED = {"aborted": "stopped before the first token"}


class AnsweredSessions(KeptSessions):
    """The answers that are on their way are those of each session."""

    def __init__(self, store: SessionStore, report: Callable[[str], None], system: str | None = None) -> None:
        super().__init__(store, report, system)
        self.ahead = WriteAhead(store)

    @property
    def model(self) -> str:
        """Names whose token ids a new answer's are; known once the engine is ready."""
        return self.ahead.model

    @model.setter
    def model(self, model: str) -> None:
        self.ahead.model = model

    @property
    def running(self) -> list[Session]:
        """Those with an answer on its way."""
        return [s for s in self.sessions if s.running]

    def ask(self, session: Session, text: str) -> Message:
        """Put the person's ``text`` behind the head (or in place of the message being edited) and save it."""
        session.replaced = None
        if session.editing is not None:
            parent = session.conversation.messages[session.editing].parent
            session.editing, session.replaced = None, session.conversation.head
            self.set_head(session, parent)
        session.notice = None
        session.sent.append(text)
        message = Message(new_id(), session.conversation.head, "user", text, None, {"time": time.time()})
        self._append(session, message)
        return message

    def start(
        self, session: Session, request: int | None, at: Message | None = None, answers: int = 1
    ) -> Running:
        """An answer to ``at`` (None: the head) is on its way; ``request`` None: once the engine is ready.

        Where that is an answer, its question is answered again: a sibling, and the old one stays. Of
        several ``answers`` the first is on the screen (and returned); ``request`` is that one's.
        """
        at, head = at or session.head, session.conversation.head
        if at is None:
            raise ValueError("there is no message to answer")
        parent = at.parent if at.role == "assistant" and at.parent is not None else at.id
        before = None
        if parent != head:
            before = head
            self.set_head(session, parent)
        session.notice = None
        session.begin([Running(None, parent, before) for _ in range(answers)])
        if request is not None:
            self.ahead.ask(session, lambda: request)
        return session.answers[0]

    def add(self, delta: Delta) -> Session | None:
        """Take in new text; returns its session (None when it is gone)."""
        session = self.by_key(delta.session)
        running = session.answer(delta.request) if session is not None else None
        if running is None:
            return None
        running.add(delta)
        return session

    def finish(self, finished: Finished) -> tuple[Session, str] | None:
        """An answer is over: save what there is of it.

        Returns its session, and the person's text where nothing came of it (for the prompt; the
        question then leaves the conversation and stays on the screen as a notice).
        """
        session = self.by_key(finished.session)
        running = session.answer(finished.request) if session is not None else None
        if session is None or running is None:
            return None
        message = self.ahead.take(finished.request)
        running.close(finished)
        running.over = True
        reason = finished.message
        if says(finished):
            message = message or answer(finished, running.parent, self.model)
            self._keep(session, running, message)
            session.requests[message.id] = finished.request
        else:
            reason = reason or _UNANSWERED.get(finished.reason, f"ended: {finished.reason}")
            if finished.message:
                session.notice = Notice("", finished.message)
        if any(not each.over for each in session.answers):
            self.set_head(session, running.parent)  # the others are answers to it, too
            return session, ""
        session.unread = session is not self.current
        return session, self._settle(session, reason)

    def give_up(self, session: Session, reason: str) -> str:
        """No more will come of what runs; what has come is kept. Returns as ``finish`` does."""
        if session.running is None:
            return ""
        self._keep_partial(session, "error", reason)
        return self._settle(session, reason)

    def keep_unfinished(self) -> None:
        """Before quitting: save what has come of every running answer."""
        for session in self.running:
            self._keep_partial(session, "quit")
            if any(each.message for each in session.answers):
                self._settle(session, "")
            session.end()

    def _keep_partial(self, session: Session, reason: str, why: str = "") -> None:
        """Save what has come of the answers on their way; they are over. ``why``: in words."""
        for running in session.answers:
            if not running.over:
                running.over = True
                if message := self.ahead.take(running.request) or self._partial(running, reason, why):
                    self._keep(session, running, message)

    def _partial(self, running: Running, reason: str, why: str) -> Message | None:
        if not running.token_ids:
            return None
        meta: dict[str, object] = {"why": why} if why else {}  # under the answer it is read from now on
        text, thinking, ids = running.text, running.thinking, running.token_ids
        return made(running.parent, text, thinking, ids, reason, self.model, meta)

    def _settle(self, session: Session, reason: str) -> str:
        """All answers are over: go on from the one on the screen, or the newest that there is.

        Where there is none, the question leaves; returns its text then, for the prompt.
        """
        shown, answers = session.running, session.end()
        messages = [each.message for each in answers if each.message is not None]
        if shown is None or not messages:
            return "" if shown is None else self._withdraw(session, shown, reason)
        head = (shown.message or messages[-1]).id
        if session.conversation.head != head:
            self.set_head(session, head)
        return ""

    def _keep(self, session: Session, running: Running, message: Message) -> None:
        running.message = message
        self._append(session, message)

    def _withdraw(self, session: Session, running: Running, reason: str) -> str:
        message = session.conversation.messages[running.parent]
        again = running.before is not None
        session.notice = Notice("" if again else message.text, reason)
        self.set_head(session, running.before if again else session.replaced or message.parent)
        session.replaced = None
        session.unread = session is not self.current
        return "" if again else message.text
