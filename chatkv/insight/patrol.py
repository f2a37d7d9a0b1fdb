"""Checks a live mirror bit by bit: each call costs a few milliseconds, however large the cache is."""

from __future__ import annotations

from chatkv.insight.integrity import one_node, owned, pool, rows, violations
from chatkv.insight.state import MirrorState

SMALL = 1_000
"""Up to so many nodes everything is counted again at once; of a larger tree so many are looked at a call."""
_KEPT = 8
"""Problems kept of one round; where there is one, the first says most."""


class Patrol:
    """Goes round a large tree in slices: what holds of a node and its blocks holds at every moment.

    What only a count over all nodes can show (a block in two nodes, the evictable sum) is looked for
    in small trees alone. Where nothing changed since a round ended, a call costs nothing.
    """

    def __init__(self) -> None:
        self.problems: tuple[str, ...] = ()
        """Of the last whole round, and of this one so far."""
        self.ended = False
        """A round has ended: from now on ``problems`` says something where it is empty, too."""
        self._left: list[int] = []
        self._found: list[str] = []
        self._at: tuple[int, int, int] | None = None
        """What the last round was of: the mirror, ``seq``, ``structure_version``."""

    def step(self, mirror: MirrorState) -> bool:
        """Look at a part; True where ``problems`` or ``ended`` may have changed."""
        at = (id(mirror), mirror.seq, mirror.structure_version)
        if not self._left:
            if at == self._at:
                return False
            self._at = at
            if len(mirror.nodes) <= SMALL:
                self.problems, self.ended = tuple(violations(mirror)[:_KEPT]), True
                return True
            self._left = list(mirror.nodes)
            self._found = [*mirror.faults, *pool(mirror), *rows(mirror)]
        nodes = mirror.nodes
        for _ in range(min(SMALL, len(self._left))):
            node = nodes.get(self._left.pop())
            if node is not None:
                self._found += one_node(mirror, node)
                self._found += owned(mirror, node)
        found = tuple(self._found[:_KEPT])
        if found or not self._left:
            self.problems = found
        self.ended |= not self._left
        return True
