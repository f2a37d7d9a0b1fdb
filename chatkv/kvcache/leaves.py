"""The evictable leaves of a tree, in the strategy's order.

The last part of every strategy's key is a time, so the leaves that agree in the parts before it (their
*rank*) stand in a line: one just stored or used goes to one end of it, one whose last child was just
evicted usually to the other, and one that is used, locked or evicted leaves it from anywhere. All of
that is O(1), whatever the number of leaves, and no eviction has to tidy up after earlier uses. Only a
leaf that belongs into the middle of its line goes into a heap instead, in O(log n).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from heapq import heapify, heappop, heappush

from chatkv.kvcache.eviction import Key, Strategy
from chatkv.kvcache.node import Node


class EvictableLeaves:
    """Nodes without children and without locks; ``len`` counts them exactly."""

    __slots__ = ("_heap", "_keys", "_lines", "_ranks", "strategy")

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self._keys: dict[int, Key] = {}
        """The present key of each leaf, by id."""
        self._lines: dict[Key, OrderedDict[int, Node]] = {}
        """By rank, never empty, in the order of their keys."""
        self._ranks: list[Key] = []
        """The ranks that have a line, sorted."""
        self._heap: list[tuple[Key, int, Node]] = []
        """Leaves that are in no line. An entry with another key than the present one is outdated."""

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, node: Node) -> bool:
        return node.id in self._keys

    def ids(self) -> set[int]:
        """The ids of all of them (a copy)."""
        return set(self._keys)

    def key(self, node: Node) -> Key:
        """The order: pinned nodes after all others, then the strategy's key."""
        return (int(node.pinned), *self.strategy.key(node))

    def add(self, node: Node) -> None:
        """``node`` is evictable from now on."""
        key, old = self.key(node), self._keys.get(node.id)
        if key == old:
            return
        if old is not None:
            self._leave(old, node)
        self._keys[node.id] = key
        rank = key[:-1]
        line = self._lines.get(rank)
        if line is None:
            self._lines[rank] = OrderedDict({node.id: node})
            insort(self._ranks, rank)
        elif key >= self._keys[next(reversed(line))]:
            line[node.id] = node
        elif key <= self._keys[next(iter(line))]:
            line[node.id] = node
            line.move_to_end(node.id, last=False)
        else:
            heappush(self._heap, (key, node.id, node))
            if len(self._heap) > 4 * len(self._keys) + 64:
                self._heap = [entry for entry in self._heap if self._keys.get(entry[1]) == entry[0]]
                heapify(self._heap)

    def discard(self, node: Node) -> None:
        """``node`` is no longer evictable."""
        key = self._keys.pop(node.id, None)
        if key is not None:
            self._leave(key, node)

    def changed(self, node: Node) -> None:
        """What the key of ``node`` is made of may have changed: a use, a pin, a priority."""
        if node.id in self._keys:
            self.add(node)

    def first(self) -> Node | None:
        """The leaf to evict next (it stays where it is), or None."""
        heap, keys = self._heap, self._keys
        while heap and keys.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        if not self._ranks:
            return heap[0][2] if heap else None
        line = self._lines[self._ranks[0]]
        id = next(iter(line))
        return heap[0][2] if heap and heap[0][0] < keys[id] else line[id]

    def _leave(self, key: Key, node: Node) -> None:
        rank = key[:-1]
        line = self._lines.get(rank)
        if line is not None and line.pop(node.id, None) is not None and not line:
            del self._lines[rank]
            del self._ranks[bisect_left(self._ranks, rank)]
