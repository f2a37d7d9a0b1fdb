"""What was evicted a short while ago, so that people can see what they lost."""

from __future__ import annotations

import numpy as np

from chatkv.insight.nodes import Ghost, Node
from chatkv.kvcache.events import Int32Array, NodeEvicted, NodeTrimmed

GHOSTS_KEPT = 64


class Ghosts:
    """``kept``: newest last, keyed by node id; the trimmed end of a live node by minus its id."""

    def __init__(self) -> None:
        self.kept: dict[int, Ghost] = {}

    def add_node(
        self, node: Node, path: list[int], event: NodeEvicted, epoch: int, wall: float | None
    ) -> None:
        """A whole node left the tree."""
        ghost = Ghost(
            node.id,
            node.parent,
            tuple(path),
            node.tokens,
            node.blocks,
            False,
            node.created_seq,
            event.reason,
            event.seq,
            epoch,
            wall,
            frozenset(node.sessions),
        )
        self._add(node.id, ghost)

    def add_part(
        self,
        node: Node,
        tokens: Int32Array,
        path: list[int],
        event: NodeTrimmed,
        epoch: int,
        wall: float | None,
    ) -> None:
        """The end of a node left; what left it right before that joins in one ghost."""
        before = self.kept.pop(-node.id, None)
        blocks = event.blocks
        if before is not None:
            tokens, blocks = np.concatenate((tokens, before.tokens)), np.concatenate((blocks, before.blocks))
        ghost = Ghost(
            node.id,
            node.id,
            (*path, node.id),
            tokens,
            blocks,
            True,
            node.created_seq,
            event.reason,
            event.seq,
            epoch,
            wall,
            frozenset(node.sessions),
        )
        self._add(-node.id, ghost)

    def drop(self, key: int) -> bool:
        """Forget one; True where it was there."""
        return self.kept.pop(key, None) is not None

    def expire(self, epoch: int) -> bool:
        """Forget those evicted in ``epoch`` or before; True where there were some."""
        stale = [key for key, ghost in self.kept.items() if ghost.evicted_epoch <= epoch]
        for key in stale:
            del self.kept[key]
        return bool(stale)

    def copy(self) -> Ghosts:
        """An independent copy."""
        twin = Ghosts()
        twin.kept = self.kept.copy()
        return twin

    def _add(self, key: int, ghost: Ghost) -> None:
        self.kept[key] = ghost
        while len(self.kept) > GHOSTS_KEPT:
            del self.kept[next(iter(self.kept))]
