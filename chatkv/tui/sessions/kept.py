"""The open sessions and what is kept of them on disk, also by another chatkv over the same folder.

What the store can't write is reported through ``report`` as one line and stays in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from chatkv.chat.settings import Settings
from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation, Message, clean_name
from chatkv.errors import ChatkvError
from chatkv.text import one_line
from chatkv.tui.sessions.session import Session


class KeptSessions:
    """``sessions`` is never empty; ``current`` is the one on the screen."""

    def __init__(self, store: SessionStore, report: Callable[[str], None], system: str | None = None) -> None:
        self._store = store
        self._report = report
        self._system = system
        self._failing = False
        """Something could not be written, and the person knows."""
        self.heard = 0
        """How often something was taken in that another chatkv has written."""
        self._deleted: list[tuple[int, Session]] = []
        """Those that can be brought back, and where they stood."""
        self._keys = (f"s{number}" for number in itertools.count(1))
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
        all = [*self.sessions, *(session for _, session in self._deleted)]
        return [s for s in all if self._store.unsaved(s.conversation) or (s.head and not s.stored)]

    def save_again(self) -> bool:
        """Write what could not be written; True where nothing is left of it."""
        for session in self.unsaved:
            try:
                if not session.stored:
                    self._ensure_stored(session)
                    if session not in self.sessions:
                        self._store.delete(session.conversation)
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

    def look_once_more(self) -> None:
        """Before quitting: files that have lost something since the last look are made whole."""
        for session in (*self.sessions, *(session for _, session in self._deleted)):
            if session.stored and not self.unkept:
                with suppress(ChatkvError):
                    self._store.catch_up(session.conversation)

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
            if session is not self.current and not session.running:
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

    def set_head(self, session: Session, head: str | None) -> None:
        """Go on from ``head``."""
        session.conversation.set_head(head)
        if session.stored:
            self._try(lambda: self._store.set_head(session.conversation, head))

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

    def _append(self, session: Session, message: Message) -> None:
        if message.id not in session.conversation.messages:
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
