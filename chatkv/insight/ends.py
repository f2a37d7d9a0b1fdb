"""Where each session's conversation ends in the tree, and so which branches nobody comes back to."""

from __future__ import annotations

from collections.abc import Iterator

from chatkv.kvcache.events import ROOT


class Ends:
    """The deepest node of each open request, and of the last request of each session (root: nothing is left).

    A node that was evicted hands its ends to the one above it: leaves go first, so that is what is left.
    """

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        """Request → node."""
        self.sessions: dict[str, int] = {}
        """Session → node; a session whose request is open is not among them."""
        self.version = 0
        """Grows with every change."""
        self._at: dict[int, set[str]] = {}

    def start(self, request: int, session: str) -> None:
        """A request of ``session`` opened."""
        self._leave(session)
        self.open[request] = ROOT
        self.version += 1

    def reach(self, request: int | None, node: int) -> None:
        """The request's path ends in ``node`` now."""
        if request in self.open:
            self.open[request] = node
            self.version += 1

    def close(self, request: int, session: str) -> None:
        """The request is over: its end is the session's, unless it left nothing."""
        node = self.open.pop(request, ROOT)
        if node != ROOT:
            self._leave(session)
            self._put(session, node)
        self.version += 1

    def replace(self, node: int, heir: int) -> None:
        """What ended in ``node`` ends in ``heir`` now."""
        for request, at in self.open.items():
            if at == node:
                self.open[request] = heir
        for session in self._at.pop(node, ()):
            self._put(session, heir)
        self.version += 1

    def clear(self) -> None:
        """Nothing is cached any more."""
        self.open = dict.fromkeys(self.open, ROOT)
        self.sessions.clear()
        self._at.clear()
        self.version += 1

    def __iter__(self) -> Iterator[int]:
        yield from self.open.values()
        yield from self._at

    def copy(self) -> Ends:
        """An independent copy."""
        twin = Ends()
        twin.open, twin.sessions, twin.version = self.open.copy(), self.sessions.copy(), self.version
        twin._at = {node: sessions.copy() for node, sessions in self._at.items()}
        return twin

    def _put(self, session: str, node: int) -> None:
        self.sessions[session] = node
        self._at.setdefault(node, set()).add(session)

    def _leave(self, session: str) -> None:
        node = self.sessions.pop(session, None)
        if node is not None:
            self._at[node].discard(session)
            if not self._at[node]:
                del self._at[node]
