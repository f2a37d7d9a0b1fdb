"""When the inspected node would be evicted, in words, without a pause where there are many others."""

from __future__ import annotations

from chatkv.insight.mirror import Mirror, Node
from chatkv.insight.standing import Turn

AT_ONCE = 4_000
"""Nodes that are looked at before the next frame."""


class TurnWords:
    """Counting all leaves for each token would cost more than the picture: what it last was is kept."""

    def __init__(self) -> None:
        self._at: tuple[object, ...] = ()
        self._node: tuple[object, ...] = ()
        self._words = ""
        self._turn: Turn | None = None

    def of(self, mirror: Mirror, node: Node) -> str:
        """For a live node. While it is being counted: what it was before."""
        if self._node != (mirror, node.id):
            self._node, self._turn = (mirror, node.id), None
            self._words = "when it would be evicted: counting …"
        at = (mirror, node.id, node.locks, mirror.structure_version, mirror.epoch, len(mirror.pinned))
        if self._at != at and self._turn is None:
            self._at, self._turn = at, Turn(mirror, node)
            self.go_on()
        return self._words

    @property
    def counting(self) -> bool:
        """``go_on`` is to be called."""
        return self._turn is not None

    def go_on(self) -> None:
        """Count some more."""
        if self._turn is not None and self._turn.count(AT_ONCE):
            self._words, self._turn = self._turn.standing.words, None
