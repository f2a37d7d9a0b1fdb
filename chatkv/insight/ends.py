"""Where each session's conversation ends in the tree, and so which branches nobody comes back to."""

from __future__ import annotations

from collections.abc import Iterator, Set

from chatkv.kvcache.events import ROOT

KEPT = 1_000
"""Requests that are over, and sessions, of which it is known where they ended: the latest."""


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
        """Node → the sessions that end there."""
        self._unnamed: set[int] = set()
        """Nodes in which a session ends that is not kept any more."""
        self._over: dict[int, int] = {}
        """Request that is over → node."""
        self._over_at: dict[int, set[int]] = {}
        self._stands: dict[str, int] = {}
        """Session → the request that is over and that it goes on from; none but those in ``sessions``."""
        self._lost: dict[int, set[int]] = {}
        """Request that is over → nodes of its path that were evicted since, from the end."""

    def start(self, request: int, session: str) -> None:
        """A request of ``session`` opened."""
        self._leave(session)
        self._stands.pop(session, None)
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
            self._stands[session] = request
            self._lost.pop(request, None)
            self._keep(request, node)
            if len(self._over) > KEPT:
                oldest = next(iter(self._over))
                self._drop(oldest)
                self._lost.pop(oldest, None)
        self.version += 1

    def stand(self, session: str, request: int) -> bool:
        """The session goes on from where ``request`` ended: a person is back at its answer, or forked there.

        False where it did before, and where that is not known (any more).
        """
        node = self._over.get(request)
        if node is None or request == self._stands.get(session):
            return False
        lost = self.lost(session)
        self._stands[session] = request
        if node == self.sessions.get(session) and lost == self.lost(session):
            return False
        self._leave(session)
        self._put(session, node)
        self.version += 1
        return True

    def lost(self, session: str) -> Set[int]:
        """The nodes that were evicted from behind the session's end, where no request of it is open."""
        return self._lost.get(self._stands.get(session, -1), frozenset())

    def evict(self, node: int, parent: int) -> None:
        """``node`` left the tree: what ended in it ends in ``parent`` now."""
        for request in self._over_at.get(node, ()):
            self._lost.setdefault(request, set()).add(node)
        self.replace(node, parent)

    def replace(self, node: int, heir: int) -> None:
        """What ended in ``node`` ends in ``heir`` now, which holds the same."""
        for request, at in self.open.items():
            if at == node:
                self.open[request] = heir
        for session in self._at.pop(node, ()):
            self._put(session, heir)
        if node in self._unnamed:
            self._unnamed.discard(node)
            self._pass_on(heir)
        for request in tuple(self._over_at.get(node, ())):
            self._keep(request, heir)
        self.version += 1

    def clear(self) -> None:
        """Nothing is cached any more."""
        self.open = dict.fromkeys(self.open, ROOT)
        self.sessions.clear()
        self._stands.clear()
        self._lost.clear()
        self._at.clear()
        self._unnamed.clear()
        self._over.clear()
        self._over_at.clear()
        self.version += 1

    def __iter__(self) -> Iterator[int]:
        yield from self.open.values()
        yield from self._at
        yield from self._unnamed

    def copy(self) -> Ends:
        """An independent copy."""
        twin = Ends()
        twin.open, twin.sessions, twin.version = self.open.copy(), self.sessions.copy(), self.version
        twin._at = {node: sessions.copy() for node, sessions in self._at.items()}
        twin._unnamed = self._unnamed.copy()
        twin._stands = self._stands.copy()
        twin._lost = {request: nodes.copy() for request, nodes in self._lost.items()}
        twin._over = self._over.copy()
        twin._over_at = {node: requests.copy() for node, requests in self._over_at.items()}
        return twin

    def _put(self, session: str, node: int) -> None:
        """The newest ones end at the end of ``sessions``; a move of its end is nothing new of a session."""
        self.sessions[session] = node
        self._at.setdefault(node, set()).add(session)
        if len(self.sessions) > KEPT:
            oldest = next(iter(self.sessions))
            end = self.sessions[oldest]
            self._leave(oldest)
            self._stands.pop(oldest, None)
            self._pass_on(end)

    def _pass_on(self, node: int) -> None:
        """A session whose name is not kept ends in ``node``."""
        if node != ROOT:
            self._unnamed.add(node)

    def _leave(self, session: str) -> None:
        node = self.sessions.pop(session, None)
        if node is not None:
            self._at[node].discard(session)
            if not self._at[node]:
                del self._at[node]

    def _keep(self, request: int, node: int) -> None:
        if request in self._over:
            self._drop(request)
        self._over[request] = node
        self._over_at.setdefault(node, set()).add(request)

    def _drop(self, request: int) -> None:
        node = self._over.pop(request)
        self._over_at[node].discard(request)
        if not self._over_at[node]:
            del self._over_at[node]
