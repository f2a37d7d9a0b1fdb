"""What other chatkv do over the same folder of sessions, and whether what failed to be written now can be."""

from __future__ import annotations

from collections.abc import Callable

from chatkv.chat.presence import Presence
from chatkv.tui.sessions.book import SessionBook

AGAIN = 5
"""Every so many looks, what could not be written is tried again."""


class Around:
    """Looked at every now and then; what it finds is in the book then."""

    def __init__(self, book: SessionBook, presence: Presence | None = None) -> None:
        """Without ``presence`` nobody is seen, and nobody sees this one."""
        self._book = book
        self._presence = presence
        self._looks = 0

    def look(self, tell: Callable[[str], None]) -> bool:
        """Say what there is to say, by ``tell``; returns whether anything looks otherwise than before."""
        book, heard, told = self._book, self._book.heard, False
        self._looks += 1
        if self._looks % AGAIN == 0 and book.unsaved and book.save_again():
            tell("what could not be saved before is saved now")
            told = True
        book.take_new()
        book.hear_of_others()
        if line := book.catch_up(book.current):
            tell(line)
            told = True
        return self._see_others() or told or book.heard != heard

    def _see_others(self) -> bool:
        """Returns whether a session has come on another screen, or left it."""
        if self._presence is None:
            return False
        current, changed = self._book.current, False
        self._presence.show(current.conversation.id if current.stored else None)
        others = self._presence.others()
        for session in self._book.sessions:
            elsewhere = session.stored and session.conversation.id in others
            changed |= elsewhere is not session.elsewhere
            session.elsewhere = elsewhere
        return changed

    def close(self) -> None:
        """The screen is gone."""
        if self._presence is not None:
            self._presence.close()
