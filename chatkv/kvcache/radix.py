"""The radix tree over token ids (RadixAttention: SGLang, arXiv 2312.07104, section 3).

Finds the longest cached prefix of a prompt and the blocks that hold its KV. Page-aligned: nodes are
cut only between blocks, so a node owns whole blocks. Unless ``strict``, a leaf may be a *tail*, one
partly filled block, and a lookup also says which block holds the next few tokens, to be copied.

The tree owns structure, locks and order of eviction. It owns no pool: blocks come in with ``insert``
or ``store`` and leave through ``evict``, and whoever called does the accounting.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chatkv.kvcache import events as ev
from chatkv.kvcache.errors import CacheError, ReleaseError
from chatkv.kvcache.events import EventLog, Int32Array
from chatkv.kvcache.eviction import strategy
from chatkv.kvcache.leaves import EvictableLeaves
from chatkv.kvcache.node import EMPTY, Node, common_prefix, data_tokens, token_data
from chatkv.kvcache.results import Evicted, Found, Inserted, Match


class RadixTree:
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

    # --- looking up -------------------------------------------------------------------------------

    def find(self, tokens: Int32Array, namespace: str = "") -> Found:
        """The longest cached prefix of ``tokens`` (int32 [n]), changing nothing, not even recency."""
        size = self.block_size
        path, at, child = self._descend(namespace, token_data(tokens))
        idle = sum(len(node.blocks) for node in path if node.locks == 0)
        if child is None:
            node = path[-1]
            source, extra = node.closest_child(tokens[at:], size) if self.ordered else (None, 0)
            return Found(node, node.num_tokens, at, idle, source, extra)
        shared = common_prefix(child.tokens, tokens[at:])
        whole = shared // size * size
        if child.locks == 0:
            idle += whole // size
        extra = shared - whole
        return Found(child, whole, at + whole, idle, child if extra else None, extra)

    def match(self, tokens: Int32Array, namespace: str = "") -> Match:
        """The longest cached prefix of ``tokens``; a node that it ends in is split there.

        Every node of the matched path was used now (and only those).
        """
        path, at, child = self._descend(namespace, token_data(tokens))
        if child is not None:  # at least its first block matches
            whole = common_prefix(child.tokens, tokens[at:]) // self.block_size * self.block_size
            path.append(self._split(child, whole))
            at += whole
        node = path[-1]
        self._used(node, hit=False)
        blocks = np.concatenate([n.blocks for n in path]) if len(path) > 1 else EMPTY
        return Match(node, blocks, at)

    def _descend(self, namespace: str, data: bytes) -> tuple[list[Node], int, Node | None]:
        """From the root along ``data``: the nodes that match whole, root first; how many tokens they
        hold; and the child, if any, of which only a beginning of one block or more matches.
        """
        width, end = 4 * self.block_size, len(data)
        node = self.root(namespace)
        path = [node]
        at = 0  # in bytes
        while end - at >= width and (child := node.children.get(data[at : at + width])) is not None:
            if not data.startswith(child.data, at):
                return path, at // 4, child
            at += len(child.data)
            node = child
            path.append(node)
        return path, at // 4, None

    def settle(self, found: Found) -> Node:
        """The node that ends exactly where ``found`` ends, split off where needed."""
        return self.part(found.node, found.inside)

    def part(self, node: Node, tokens: int) -> Node:
        """The node that ends behind the first ``tokens`` (whole blocks) of ``node``, split off if needed."""
        return self._split(node, tokens) if tokens < node.num_tokens else node

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

    # --- storing ----------------------------------------------------------------------------------

    def insert(
        self, tokens: Int32Array, blocks: Int32Array, namespace: str = "", priority: int = 0
    ) -> Inserted:
        """Store a whole sequence from its start; what is there already keeps its own blocks.

        Only whole blocks are taken. Nodes passed on the way count a hit and take the larger priority.
        Raises ValueError where there are fewer blocks than whole blocks of tokens.
        """
        size = self.block_size
        n = len(tokens) // size * size
        if len(blocks) < n // size:
            raise ValueError(f"{len(tokens)} tokens need {n // size} blocks of {size}, got {len(blocks)}")
        result = self.store(self.root(namespace), tokens[:n], blocks[: n // size])
        old = result.node.parent if result.present < n else result.node
        if old is not None and old.parent is not None:
            self._used(old, hit=True)
        if priority > 0:
            for node in self.path(result.node):
                node.priority = max(node.priority, priority)
            self.leaves.changed(result.node)
        return result

    def store(
        self,
        start: Node,
        tokens: Int32Array,
        blocks: Int32Array,
        request: int | None = None,
        *,
        behind: int | None = None,
        cut: bool = True,
    ) -> Inserted:
        """Put whole blocks of ``tokens`` below ``start``; what is there already keeps its own blocks.

        They come ``behind`` so many tokens of the path to ``start``: at its end unless told otherwise. A leaf
        that ``request`` stored grows in place. Unless ``cut``, a run that is there already and ends inside a
        node leaves that node whole.
        """
        size, data = self.block_size, token_data(tokens)
        width, end, at = 4 * size, len(data), 0  # in bytes
        node = start if behind is None else self.reaching(start, behind)
        if behind is not None and behind < node.end:
            inside = 4 * (behind - node.start)
            if not cut and node.data.startswith(data, inside):
                return Inserted(node, len(tokens), EMPTY)
            at = 4 * (common_prefix(node.tokens[inside // 4 :], tokens) // size * size)
            if inside + at < len(node.data):
                node = self._split(node, (inside + at) // 4)
        if node.parent is None:  # one that went with its last child means the namespace's present root
            node = self.root(start.namespace)
        while at < end:
            key = data[at : at + width]
            child = node.children.get(key)
            if child is None:
                dropped, pinned = self._supersede(node, key, request) if self.tails else (EMPTY, False)
                put = self._add if pinned else self._put
                node = put(node, data[at:], blocks[at // width :].copy(), request)
                if pinned:  # the block that took the tail's place, and no more, so that the bound holds
                    self.pin(node if len(node.blocks) == 1 else self._split(node, size), True)
                return Inserted(node, at // 4, dropped)
            if data.startswith(child.data, at):
                node = child
            elif not cut and child.data.startswith(data[at:]):
                return Inserted(child, len(tokens), EMPTY)
            else:
                node = self._split(child, common_prefix(child.tokens, tokens[at // 4 :]) // size * size)
            at += len(node.data)
        return Inserted(node, at // 4, EMPTY)

    def store_tail(
        self,
        parent: Node,
        tokens: Int32Array,
        block: int,
        request: int | None = None,
        *,
        behind: int | None = None,
    ) -> Inserted:
        """Keep a partly filled block below ``parent``, unless its tokens are there already (``present``).

        It comes ``behind`` so many tokens, as in ``store``.
        """
        key = token_data(tokens)
        if behind is not None:
            parent = self.reaching(parent, behind)
            if behind < parent.end:
                if parent.data.startswith(key, 4 * (behind - parent.start)):
                    return Inserted(parent, len(tokens), EMPTY)
                parent = self._split(parent, behind - parent.start)
        if parent.parent is None:
            parent = self.root(parent.namespace)
        if (child := parent.covering(key)) is not None:
            return Inserted(child, len(tokens), EMPTY)
        dropped, pinned = self._supersede(parent, key, request)
        node = self._add(parent, key, np.array([block], dtype=np.int32), request)
        if pinned:
            self.pin(node, True)
        return Inserted(node, 0, dropped)

    # --- locks ------------------------------------------------------------------------------------

    def lock(self, node: Node, request: int | None = None) -> int:
        """Lock the path to ``node``; returns how many blocks stopped being evictable."""
        self.log.emit(ev.PathLocked, node=node.id, request=request)
        taken = 0
        for n in self.path(node):
            if n.locks == 0:
                taken += len(n.blocks)
                self.leaves.discard(n)
            n.locks += 1
            n.last = self.log.clock
        self.evictable -= taken
        return taken

    def unlock(self, node: Node, request: int | None = None) -> int:
        """Unlock the path to ``node``; returns how many blocks became evictable.

        Raises ReleaseError, changing nothing, where a node of the path is not locked.
        """
        path = self.path(node)
        for n in path:
            if n.locks < 1:
                raise ReleaseError(f"node {n.id} is unlocked more often than it was locked")
        self.log.emit(ev.PathUnlocked, node=node.id, request=request)
        given = 0
        for n in path:
            n.locks -= 1
            n.last = self.log.clock
            if n.locks == 0:
                given += len(n.blocks)
                self._offer(n)
        self.evictable += given
        return given

    def pin(self, node: Node, pinned: bool) -> None:
        """Evict ``node`` after all nodes that are not pinned (or no longer so)."""
        if node.pinned == pinned:
            return
        node.pinned = pinned
        if pinned:
            self.pinned[node.id] = node
            node.owner = None  # a pin is for what is there now: it does not grow with the leaf
        else:
            del self.pinned[node.id]
        self.leaves.changed(node)
        self.log.emit(ev.NodePinned, node=node.id, pinned=pinned)

    def held_by_pins(self, extra: Node) -> int:
        """Blocks of all pinned nodes and of ``extra``, and of the nodes above them, which stay as long."""
        held = {n.id: n for node in (*self.pinned.values(), extra) for n in self.path(node)}
        return sum(len(n.blocks) for n in held.values())

    def node(self, id: int) -> Node:
        """The node with this id, looked for in the whole tree. Raises CacheError where there is none."""
        for node in self.walk():
            if node.id == id:
                return node
        raise CacheError(f"node {id} is not in the tree")

    # --- eviction ---------------------------------------------------------------------------------

    def evict(self, num_blocks: int, request: int | None = None) -> Evicted:
        """Remove unlocked leaves until ``num_blocks`` blocks are free or none is left.

        Whole nodes (grain ``node``: may free more than asked) or single blocks from a leaf's end
        (grain ``block``). A parent joins the candidates when its last child goes. Raises ValueError for
        a negative number.
        """
        if num_blocks < 0:
            raise ValueError(f"can't evict {num_blocks} blocks")
        gone: list[Int32Array] = []
        freed = tokens = rank = 0
        while freed < num_blocks and (node := self.leaves.first()) is not None:
            rank += 1
            keep = 0 if self.grain == "node" else max(len(node.blocks) - (num_blocks - freed), 0)
            blocks, lost = self._cut(node, keep, "room", rank, request)
            gone.append(blocks)
            freed += len(blocks)
            tokens += lost
        return Evicted(np.concatenate(gone) if gone else EMPTY, tokens)

    def walk(self) -> Iterator[Node]:
        """All nodes except the roots, parents first."""
        stack = [child for root in self.roots.values() for child in root.children.values()]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    # --- inside -----------------------------------------------------------------------------------

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

    def _supersede(self, parent: Node, key: bytes, request: int | None) -> tuple[Int32Array, bool]:
        """Drop the tail whose tokens a new child with ``key`` will hold as well.

        Returns its block and whether it was pinned.
        """
        tail = parent.tail_within(key)
        if tail is None or tail not in self.leaves:
            return EMPTY, False
        pinned = tail.pinned
        return self._cut(tail, 0, "superseded", 1, request)[0], pinned

    def _offer(self, node: Node) -> None:
        if node.locks == 0 and not node.children:
            self.leaves.add(node)

    def _put(self, parent: Node, data: bytes, blocks: Int32Array, request: int | None) -> Node:
        grows = request is not None and parent.owner == request and not parent.children
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

    def _cut(
        self, node: Node, keep: int, reason: str, rank: int, request: int | None
    ) -> tuple[Int32Array, int]:
        """Take all but the first ``keep`` blocks of an evictable leaf out of the tree."""
        parent, size = node.parent, self.block_size
        assert parent is not None
        assert node in self.leaves, f"{node!r} is not an evictable leaf"
        blocks, lost = node.blocks[keep:], node.num_tokens - keep * size
        why = {
            "reason": reason,
            "strategy": self.strategy.name,
            "rank": rank,
            "age": self.log.clock - node.last,
            "leaves": len(self.leaves),
            "request": request,
        }
        self.total_tokens -= lost
        self.total_blocks -= len(blocks)
        self.evictable -= len(blocks)
        if keep:
            node.data, node.blocks = node.data[: 4 * keep * size], node.blocks[:keep].copy()
            node.end -= lost
            self.log.emit(ev.NodeTrimmed, node=node.id, tokens=lost, blocks=blocks, **why)
            return blocks, lost
        self.leaves.discard(node)
        self.pinned.pop(node.id, None)
        parent.drop_child(node.key(size), self.ordered)
        self.log.emit(ev.NodeEvicted, node=node.id, tokens=lost, blocks=blocks, **why)
        if parent.parent is None:
            if not parent.children:
                del self.roots[parent.namespace]
        else:
            self._offer(parent)
        return blocks, lost
