"""All open sessions, in order, and every change to them that is kept on disk.

The one owner of this state: widgets show it, the app calls the verbs here. What the store can't
write is reported through ``report`` as one line and stays in memory.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from chatkv.chat.settings import Settings
from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation, Message, clean_name, new_id
from chatkv.engine.messages import Delta, Finished
from chatkv.errors import ChatkvError
from chatkv.text import one_line
from chatkv.tui.sessions.running import Running
from chatkv.tui.sessions.session import Notice, Session

ORDERS: dict[str, Callable[[int, Session], Any]] = {
    "opened": lambda number, session: number,
    "newest first": lambda number, session: -session.last_used,
    "name": lambda number, session: session.name.casefold(),
    "hit %": lambda number, session: -(-1 if session.hit_percent is None else session.hit_percent),
}
_UNANSWERED = {"aborted": "stopped before the first token"}


class SessionBook:
    """``sessions`` is never empty; ``current`` is the one on the screen."""

    def __init__(self, store: SessionStore, report: Callable[[str], None], system: str | None = None) -> None:
        self._store = store
        self._report = report
        self._system = system
        self._deleted: list[tuple[int, Session]] = []
        self._failing = False
        """Something could not be written, and the person knows."""
        self.heard = 0
        """How often something was taken in that another chatkv has written."""
        self._keys = (f"s{number}" for number in itertools.count(1))
        self.order = "opened"
        """In which the lists show them, one of ``ORDERS``; numbers stay."""
        self.model = ""
        """Names whose token ids a new answer's are; known once the engine is ready."""
        self.sessions: list[Session] = [self._open(Conversation(system=system))]
        self.current: Session = self.sessions[0]

    def load(self) -> None:
        """Take in what the store has, oldest first; the newest one becomes the current one."""
        conversations, problems = self._store.load_all()
        if problems:
            # One line: at the start there is better to look at.
            more = len(problems) - 1
            rest = f" · {more} more faults in session files; chatkv sessions lists them" if more else ""
            self._report(f"{one_line(str(problems[0]), 160)}{rest}")
        # Who types at once has asked before this: that session is in the folder by now.
        early = {s.conversation.id: s for s in self.sessions if s.stored}
        loaded = []
        for conversation in conversations:
            if asked := early.get(conversation.id):
                asked.conversation = conversation
            else:
                loaded.append(self._open(conversation, stored=True))
        if loaded:
            started = [s for s in self.sessions if s.head is not None or s.draft]
            self.sessions = loaded + started
            if self.current not in self.sessions:
                self.current = loaded[-1]

    @property
    def unkept(self) -> str:
        """Why nothing is written; empty: all is."""
        return self._store.unkept

    @property
    def unsaved(self) -> list[Session]:
        """Those of which something could not be written."""
        if self.unkept:
            return []
        return [s for s in self.sessions if self._store.unsaved(s.conversation) or (s.head and not s.stored)]

    def save_again(self) -> bool:
        """Write what could not be written; True where nothing is left of it."""
        for session in self.unsaved:
            try:
                self._ensure_stored(session)
                self._store.save(session.conversation)
            except ChatkvError:
                return False
        self._failing = False
        return True

    def save_elsewhere(self, folder: Path) -> int:
        """Write what is still unsaved there, each session whole; how many they were. Raises OSError."""
        left = self.unsaved
        for session in left:
            self._store.copy_to(session.conversation, folder)
        return len(left)

    def take_new(self) -> None:
        """Sessions that another chatkv has made in the folder."""
        for conversation in self._store.load_new()[0]:
            session = self._open(conversation, stored=True)
            session.unread = session.head is not None
            self.sessions.append(session)
            self.heard += 1

    def hear_of_others(self) -> None:
        """Take in what another chatkv has written to sessions that are not on the screen: they are unread."""
        for session in self.sessions:
            if session is not self.current and not session.running and not session.gone:
                with suppress(ChatkvError):  # it is said when the session is looked at
                    session.unread |= bool(self._take_in_others(session, follow=True))

    def catch_up(self, session: Session, follow: bool = True) -> str:
        """Take in what another chatkv has written to it; returns a line about it, if anything has changed.

        While the session stays on the screen, that messages come in is said once: there they are seen.
        ``follow``: go on from there, where that is behind what is on the screen. Else it is a branch.
        """
        try:
            self._take_in_others(session, follow)
        except ChatkvError:
            told, session.gone = session.gone, True
            return "" if told else "this session's file was removed; what is said next writes it again, whole"
        count, session.came = session.came, 0
        if not count or session.told >= (2 if session.came_aside else 1):
            return ""
        session.told = 2 if session.came_aside else 1
        came = f"another chatkv went on in this session: {count} message{'s' * (count > 1)} came in"
        return f"{came}, on a branch of their own" if session.came_aside else came

    def _take_in_others(self, session: Session, follow: bool) -> int:
        """Returns how many messages came. Raises ChatkvError where the file can't be read, or is gone."""
        if not session.stored or self.unkept:
            return 0
        conversation = session.conversation
        before, head = len(conversation.messages), conversation.head
        there = self._store.catch_up(conversation)
        session.gone = False
        if there is None:
            return 0
        self.heard += 1
        count = len(conversation.messages) - before
        if not count:
            return 0
        goes_on = head is None or any(message.id == head for message in conversation.path(there))
        session.came += count
        session.came_aside = not (goes_on and follow and session.running is None and session.editing is None)
        if not session.came_aside:
            conversation.set_head(there)
        return count

    def by_key(self, key: str) -> Session | None:
        """The session the engine calls ``key``; None when it is gone."""
        return next((s for s in self.sessions if s.key == key), None)

    def listed(self) -> list[tuple[int, Session]]:
        """(number, session), in the order of the lists."""
        return sorted(enumerate(self.sessions, 1), key=lambda it: ORDERS[self.order](it[0], it[1]))

    def next_order(self) -> None:
        """The lists' next way to sort."""
        names = list(ORDERS)
        self.order = names[(names.index(self.order) + 1) % len(names)]

    @property
    def running(self) -> list[Session]:
        """Those with an answer on its way."""
        return [s for s in self.sessions if s.running]

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

    def set_head(self, session: Session, head: str | None) -> None:
        """Go on from ``head``."""
        session.conversation.set_head(head)
        if session.stored:
            self._try(lambda: self._store.set_head(session.conversation, head))

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
            session.number(request)
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
        running.close(finished)
        running.over = True
        reason = finished.message
        if finished.token_ids or finished.reason == "stop":
            meta = {**_meta(finished), **_why(finished.message)}
            running.message = self._keep(session, running, finished.reason, meta)
            session.requests[running.message.id] = finished.request
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

    def _keep_partial(self, session: Session, reason: str, why: str = "") -> None:
        """Save what has come of the answers on their way; they are over. ``why``: in words."""
        for running in session.answers:
            if not running.over:
                running.over = True
                if running.token_ids:
                    running.message = self._keep(session, running, reason, _why(why))

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

    def keep_unfinished(self) -> None:
        """Before quitting: save what has come of every running answer."""
        for session in self.running:
            self._keep_partial(session, "quit")
            if any(each.message for each in session.answers):
                self._settle(session, "")
            session.end()

    def keep_drafts(self) -> None:
        """Before quitting: save what was typed and not sent."""
        for session in self.sessions:
            text, instead = (session.draft, session.editing) if session.draft.strip() else ("", None)
            conversation = session.conversation
            if (text, instead) != (conversation.draft, conversation.draft_for):
                self._try(partial(self._save_draft, session, text, instead))

    def _save_draft(self, session: Session, text: str, instead: str | None) -> None:
        if session.stored:
            self._store.set_draft(session.conversation, text, instead)
        else:
            session.conversation.draft, session.conversation.draft_for = text, instead
            self._ensure_stored(session)

    def rename(self, session: Session, name: str) -> None:
        """Give it a name. Raises ChatError where nothing printable is left of it."""
        if session.stored:
            self._store.rename(session.conversation, name)
        else:
            session.conversation.given_name = clean_name(name)

    def set_system(self, session: Session, text: str) -> None:
        """Give it a system prompt; blank text: none. Raises ChatError where it can't be saved."""
        system = text.strip() or None
        session.conversation.system = system
        if session.stored:
            self._store.set_system(session.conversation, system)

    def set_sampling(self, session: Session, sampling: Settings) -> None:
        """Have its answers sampled so. Raises ChatError where it can't be saved."""
        session.conversation.sampling = dict(sampling)
        if session.stored:
            self._store.set_sampling(session.conversation, sampling)

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
                taken.append(self._open(self._store.adopt(conversation), stored=True))
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
        """Bring back the session deleted last and make it current; None when there is none."""
        if not self._deleted:
            return None
        at, session = self._deleted[-1]
        if session.stored:
            self._store.undelete(session.conversation)
        self._deleted.pop()
        self.sessions.insert(min(at, len(self.sessions)), session)
        self.switch(session)
        return session

    def _open(self, conversation: Conversation, stored: bool = False) -> Session:
        sent = [m.text for m in conversation.path() if m.role == "user"]
        return Session(
            next(self._keys),
            conversation,
            stored=stored,
            sent=sent,
            draft=conversation.draft,
            editing=conversation.draft_for,
        )

    def _keep(self, session: Session, running: Running, reason: str, meta: dict[str, object]) -> Message:
        if running.thinking:
            meta = {**meta, "thinking": running.thinking}
        meta = {**meta, "reason": reason, "model": self.model, "time": time.time()}
        message = Message(new_id(), running.parent, "assistant", running.text, tuple(running.token_ids), meta)
        self._append(session, message)
        return message

    def _withdraw(self, session: Session, running: Running, reason: str) -> str:
        message = session.conversation.messages[running.parent]
        again = running.before is not None
        session.notice = Notice("" if again else message.text, reason)
        self.set_head(session, running.before if again else session.replaced or message.parent)
        session.replaced = None
        session.unread = session is not self.current
        return "" if again else message.text

    def _append(self, session: Session, message: Message) -> None:
        session.conversation.add(message)
        self._try(lambda: self._save(session, message))

    def _save(self, session: Session, message: Message) -> None:
        if session.stored:
            self._store.append(session.conversation, message)
        else:
            self._ensure_stored(session)

    def _ensure_stored(self, session: Session) -> None:
        """Give a session that was only in memory its file, with everything in it. Raises ChatError."""
        if not session.stored:
            own = self._store.adopt(session.conversation, with_draft=True)
            session.conversation, session.stored = own, True

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except ChatkvError as error:
            if not self._failing:  # once: the header goes on saying it
                self._report(str(error))
            self._failing = True
        else:
            self._failing = bool(self._failing and self.unsaved)


def _why(message: str) -> dict[str, object]:
    """With the answer, under which it is read from now on."""
    return {"why": message} if message else {}


def _meta(finished: Finished) -> dict[str, object]:
    sure: dict[str, object] = {}
    if finished.logprobs:
        least = min(finished.logprobs, key=lambda token: token.logprob)
        sure["logprob_mean"] = sum(token.logprob for token in finished.logprobs) / len(finished.logprobs)
        sure["logprob_least"] = [least.text, least.logprob]
    return {
        **sure,
        "prompt_tokens": finished.prompt_tokens,
        "cached": finished.cached,
        "copied": finished.copied,
        "computed": finished.computed,
        "ttft_s": finished.ttft_s,
        "decode_s": finished.decode_s,
    }
