"""The evictable leaves of a tree, in the strategy's order.

The last part of every strategy's key is a time, so the leaves that agree in the parts before it (their
*rank*) stand in a line: one just stored or used goes to one end of it, one whose last child was just
evicted usually to the other, and one that is used, locked or evicted leaves it from anywhere. All of
that is O(1), whatever the number of leaves, and no eviction has to tidy up after earlier uses. Only a
leaf that belongs into the middle of its line goes into a heap instead, in O(log n). Lines are linked
through the nodes themselves, which costs a leaf no object of its own.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heapify, heappop, heappush

from chatkv.kvcache.eviction import Key, Strategy
from chatkv.kvcache.node import Line, Node


class EvictableLeaves:
    """Nodes without children and without locks; ``len`` counts them exactly."""

    __slots__ = ("_count", "_heap", "_lines", "_ranks", "strategy")

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self._count = 0
        self._lines: dict[Key, Line] = {}
        """By rank, never empty."""
        self._ranks: list[Key] = []
        """The ranks that have a line, sorted."""
        self._heap: list[tuple[Key, int, Node]] = []
        """Leaves out of line, each its own neighbour. An entry with a key that is not the present one, or
        of a leaf that stands in its line again, is outdated."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, node: Node) -> bool:
        return node.line is not None

    def ids(self) -> set[int]:
        """The ids of all of them (a copy)."""
        out = {node.id for key, _, node in self._heap if self._heaped(node, key)}
        for line in self._lines.values():
            node = line.first
            while node is not None:
                out.add(node.id)
                node = node.after
        return out

    def key(self, node: Node) -> Key:
        """The order: pinned nodes after all others, then the strategy's key."""
        return (int(node.pinned), *self.strategy.key(node))

    def add(self, node: Node) -> None:
        """``node`` is evictable from now on."""
        key = self.key(node)
        rank, time = key[:-1], key[-1]
        if node.line is not None:
            if time == node.time and rank == node.line.rank:
                return
            self.discard(node)
        self._count += 1
        node.time = time
        line = self._lines.get(rank)
        if line is None:
            node.line = line = self._lines[rank] = Line(rank)
            line.first = line.last = node
            insort(self._ranks, rank)
            return
        node.line, first, last = line, line.first, line.last
        assert first is not None
        assert last is not None
        if time >= last.time:
            node.before, last.after, line.last = last, node, node
        elif time <= first.time:
            node.after, first.before, line.first = first, node, node
        else:
            node.before = node
            heappush(self._heap, (key, node.id, node))
            if len(self._heap) > 4 * self._count + 64:
                self._heap = [entry for entry in self._heap if self._heaped(entry[2], entry[0])]
                heapify(self._heap)

    def discard(self, node: Node) -> None:
        """``node`` is no longer evictable."""
        line, before, after = node.line, node.before, node.after
        if line is None:
            return
        self._count -= 1
        node.line = node.before = node.after = None
        if before is node:
            return  # its entry in the heap is outdated now
        if before is not None:
            before.after = after
        else:
            line.first = after
        if after is not None:
            after.before = before
        else:
            line.last = before
        if line.first is None:
            del self._lines[line.rank]
            del self._ranks[bisect_left(self._ranks, line.rank)]

    def changed(self, node: Node) -> None:
        """What the key of ``node`` is made of may have changed: a use, a pin, a priority."""
        if node.line is not None:
            self.add(node)

    def first(self) -> Node | None:
        """The leaf to evict next (it stays where it is), or None."""
        heap = self._heap
        while heap and not self._heaped(heap[0][2], heap[0][0]):
            heappop(heap)
        if not self._ranks:
            return heap[0][2] if heap else None
        rank = self._ranks[0]
        node = self._lines[rank].first
        assert node is not None
        return heap[0][2] if heap and heap[0][0] < (*rank, node.time) else node

    @staticmethod
    def _heaped(node: Node, key: Key) -> bool:
        line = node.line
        return node.before is node and line is not None and (*line.rank, node.time) == key
