"""The evictable leaves of a tree, in the strategy's order.

A heap whose entries may be outdated: a use does not touch the heap (that would cost every match),
it is noticed when the entry comes to the top, which then goes back in with its current key. Each use
is paid for at most once, so taking a leaf is O(log n) amortised and independent of the number of leaves.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from chatkv.kvcache.eviction import Key, Strategy
from chatkv.kvcache.node import Node


class EvictableLeaves:
    """Nodes without children and without locks; ``len`` counts them exactly."""

    __slots__ = ("_heap", "_ids", "strategy")

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self._heap: list[tuple[Key, int, Node]] = []
        self._ids: set[int] = set()

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, node: Node) -> bool:
        return node.id in self._ids

    def ids(self) -> set[int]:
        """The ids of all of them (a copy)."""
        return set(self._ids)

    def key(self, node: Node) -> Key:
        """The order: pinned nodes after all others, then the strategy's key."""
        return (int(node.pinned), *self.strategy.key(node))

    def add(self, node: Node) -> None:
        """``node`` is evictable from now on."""
        self._ids.add(node.id)
        if not (node.offered and self.strategy.grows):
            self._push(node)

    def discard(self, node: Node) -> None:
        """``node`` is no longer evictable (its entry is dropped when it comes to the top)."""
        self._ids.discard(node.id)

    def used(self, node: Node) -> None:
        """``node`` was used. Only strategies whose keys can shrink need a new entry now."""
        if not self.strategy.grows and node.id in self._ids:
            self._push(node)

    def reordered(self, node: Node) -> None:
        """The key of ``node`` may have become smaller (an unpin): give it a new entry."""
        if node.id in self._ids:
            self._push(node)
        else:
            node.offered = False  # its old entry, too large now, must not stand for it later

    def first(self) -> Node | None:
        """The leaf to evict next (it stays in the queue), or None."""
        heap = self._heap
        while heap:
            key, _, node = heap[0]
            if node.id not in self._ids:
                heappop(heap)
                node.offered = False
                continue
            now = self.key(node)
            if key == now:
                return node
            heappop(heap)
            if now > key:
                heappush(heap, (now, node.id, node))
            # A smaller current key has an entry of its own, pushed when it shrank.
        return None

    def _push(self, node: Node) -> None:
        node.offered = True
        heappush(self._heap, (self.key(node), node.id, node))
        if len(self._heap) > 4 * len(self._ids) + 64:
            self._rebuild()

    def _rebuild(self) -> None:
        live: dict[int, Node] = {}
        for _, _, node in self._heap:
            if node.id in self._ids:
                live[node.id] = node
            else:
                node.offered = False
        self._heap = [(self.key(n), n.id, n) for n in live.values()]
        heapify(self._heap)
