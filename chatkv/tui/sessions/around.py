"""What other chatkv do over the same folder of sessions, and whether what failed to be written now can be."""

from __future__ import annotations

from collections.abc import Iterator

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

    def look(self) -> Iterator[str]:
        """Lines to tell; none as long as nothing has changed."""
        book = self._book
        self._looks += 1
        if self._looks % AGAIN == 0 and book.unsaved and book.save_again():
            yield "what could not be saved before is saved now"
        book.take_new()
        if line := book.catch_up(book.current):
            yield line
        if self._presence is not None:
            current = book.current
            self._presence.show(current.conversation.id if current.stored else None)
            others = self._presence.others()
            for session in book.sessions:
                session.elsewhere = session.stored and session.conversation.id in others

    def close(self) -> None:
        """The screen is gone."""
        if self._presence is not None:
            self._presence.close()
