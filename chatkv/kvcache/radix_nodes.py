"""The nodes of a radix tree: who hangs where, and what is added, cut in two and counted.

``RadixTree`` finds and stores with it. It owns no pool: blocks come in with a node and leave with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chatkv.kvcache import events as ev
from chatkv.kvcache.events import EventLog, Int32Array
from chatkv.kvcache.eviction import strategy
from chatkv.kvcache.leaves import EvictableLeaves
from chatkv.kvcache.node import EMPTY, Node, data_tokens


class RadixNodes:
    """See the module. Sizes are counted in blocks; ``block_size`` in tokens.

    Raises ValueError for a block size below 1, an unknown strategy or an unknown grain.
    """

    def __init__(
        self,
        block_size: int = 1,
        *,
        eviction: str = "lru",
        grain: str = "node",
        strict: bool = True,
        log: EventLog | None = None,
    ) -> None:
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1, got {block_size}")
        if grain not in ("node", "block"):
            raise ValueError(f"unknown eviction grain {grain!r}: choose node or block")
        self.block_size = block_size
        self.strategy = strategy(eviction)
        self.grain = grain
        self.log = log or EventLog()
        self.ordered = block_size > 1
        """Whether children are kept sorted, so that partial matches are found in O(log n)."""
        self.tails = not strict and self.ordered
        """Whether partly filled blocks are kept."""
        self._next_id = ev.ROOT + 1
        self.reset()

    def reset(self) -> None:
        """Forget everything. Locked paths are forgotten too: the caller must have closed them."""
        self.roots: dict[str, Node] = {}
        self.leaves = EvictableLeaves(self.strategy)
        self.total_tokens = 0
        self.total_blocks = 0
        self.evictable = 0
        """Blocks of unlocked nodes."""
        self.pinned: dict[int, Node] = {}
        """The nodes that a person pinned, by id."""

    @property
    def protected(self) -> int:
        """Blocks of locked nodes."""
        return self.total_blocks - self.evictable

    def root(self, namespace: str = "") -> Node:
        """The root of a namespace: no tokens, always locked, never evicted.

        ``roots`` holds it from its first child to its last.
        """
        found = self.roots.get(namespace)
        if found is None:
            found = Node(ev.ROOT, None, b"", EMPTY, self.log.clock, namespace)
            found.locks = 1
        return found

    @staticmethod
    def reaching(node: Node, tokens: int) -> Node:
        """The highest node on the path to ``node`` behind whose start the first ``tokens`` tokens end."""
        while node.parent is not None and node.start >= tokens:
            node = node.parent
        return node

    @staticmethod
    def path(node: Node) -> list[Node]:
        """The nodes from the root's child down to ``node`` (empty for a root)."""
        out: list[Node] = []
        walk: Node | None = node
        while walk is not None and walk.parent is not None:
            out.append(walk)
            walk = walk.parent
        out.reverse()
        return out

    def path_blocks(self, node: Node) -> Int32Array:
        """The blocks of the path to ``node``, int32."""
        runs = [n.blocks for n in self.path(node)]
        return np.concatenate(runs) if runs else EMPTY

    def walk(self) -> Iterator[Node]:
        """All nodes except the roots, parents first."""
        stack = [child for root in self.roots.values() for child in root.children.values()]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    # --- changing ---------------------------------------------------------------------------------

    def part(self, node: Node, tokens: int) -> Node:
        """The node that ends behind the first ``tokens`` (whole blocks) of ``node``, split off if needed."""
        return self._split(node, tokens) if tokens < node.num_tokens else node

    def _used(self, node: Node, hit: bool) -> None:
        self.log.emit(ev.PathUsed, node=node.id, hit=hit)
        self.touch(node, int(hit))

    def touch(self, node: Node, hits: int = 0) -> None:
        """The record just emitted was a use of ``node`` and all above it, and ``hits`` reuses."""
        now, walk = self.log.clock, node
        while walk.parent is not None:
            walk.last = now
            walk.hits += hits
            walk = walk.parent
        self.leaves.changed(node)  # the nodes above it are no leaves

    def _offer(self, node: Node) -> None:
        if node.locks == 0 and not node.children:
            self.leaves.add(node)

    def _put(self, parent: Node, data: bytes, blocks: Int32Array, request: int | None) -> Node:
        # One that gave way and comes back finds what it stored before, maybe without a lock on it yet.
        grows = request is not None and parent.owner == request and parent.locks and not parent.children
        if not grows or parent.parent is None:
            return self._add(parent, data, blocks, request)
        parent.data += data
        parent.end += len(data) // 4
        parent.blocks = np.concatenate((parent.blocks, blocks))
        tokens = data_tokens(data)
        self.total_tokens += len(tokens)
        self.total_blocks += len(blocks)
        self.log.emit(ev.NodeExtended, node=parent.id, tokens=tokens, blocks=blocks, request=request)
        self.touch(parent)
        return parent

    def _add(self, parent: Node, data: bytes, blocks: Int32Array, request: int | None) -> Node:
        node = Node(self._next_id, parent, data, blocks, self.log.clock + 1, parent.namespace)
        self._next_id += 1
        node.owner = request
        if parent.parent is None:
            self.roots[parent.namespace] = parent  # it may just have lost its last child, and its place
        parent.add_child(node.key(self.block_size), node, self.ordered)
        self.leaves.discard(parent)
        self.total_tokens += node.num_tokens
        self.total_blocks += len(blocks)
        self.evictable += len(blocks)
        self.log.emit(
            ev.NodeStored,
            node=node.id,
            parent=parent.id,
            namespace=node.namespace,
            tokens=node.tokens if self.log.listening else EMPTY,  # not for nothing: 0.5 µs
            blocks=blocks,
            request=request,
        )
        self.touch(node)
        self._offer(node)
        return node

    def _split(self, node: Node, at: int) -> Node:
        size, parent = self.block_size, node.parent
        assert parent is not None
        width, above = 4 * at, node.blocks[: at // size].copy()
        upper = Node(self._next_id, parent, node.data[:width], above, node.created, node.namespace)
        self._next_id += 1
        upper.last = node.last
        upper.locks, upper.hits, upper.priority, upper.pinned = (
            node.locks,
            node.hits,
            node.priority,
            node.pinned,
        )
        parent.children[node.key(size)] = upper  # the same key, so the order needs no change
        node.data, node.blocks, node.parent = node.data[width:], node.blocks[at // size :].copy(), upper
        upper.add_child(node.key(size), node, self.ordered)
        if upper.pinned:
            self.pinned[upper.id] = upper
        self.log.emit(ev.NodeSplit, node=node.id, upper=upper.id, at=at)
        return upper
