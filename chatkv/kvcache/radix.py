"""The radix tree over token ids (RadixAttention: SGLang, arXiv 2312.07104, section 3).

Finds the longest cached prefix of a prompt and the blocks that hold its KV. Page-aligned: nodes are
cut only between blocks, so a node owns whole blocks. Unless ``strict``, a leaf may be a *tail*, one
partly filled block, and a lookup also says which block holds the next few tokens, to be copied.

The tree owns structure, locks, pins and the order of eviction. It owns no pool: blocks come in with
``insert`` or ``store`` and leave through ``evict``, and whoever called does the accounting.

Locks go along a whole path, so a node is never locked more often than its parent, and only the end of a
path can be a leaf.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chatkv.kvcache import events as ev
from chatkv.kvcache.errors import CacheError, ReleaseError
from chatkv.kvcache.events import EventLog, Int32Array
from chatkv.kvcache.eviction import strategy
from chatkv.kvcache.leaves import EvictableLeaves
from chatkv.kvcache.node import EMPTY, Node, data_tokens, shared_data, token_data
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

    # --- nodes and paths --------------------------------------------------------------------------

    def root(self, namespace: str = "") -> Node:
        """The root of a namespace: no tokens, always locked, never evicted.

        ``roots`` holds it from its first child to its last.
        """
        found = self.roots.get(namespace)
        if found is None:
            found = Node(ev.ROOT, None, b"", b"", self.log.clock, namespace)
            found.locks = 1
        return found

    def node(self, id: int) -> Node:
        """The node with this id, looked for in the whole tree. Raises CacheError where there is none."""
        for node in self.walk():
            if node.id == id:
                return node
        raise CacheError(f"node {id} is not in the tree")

    def walk(self) -> Iterator[Node]:
        """All nodes except the roots, parents first."""
        stack = [child for root in self.roots.values() for child in root.children.values()]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    @staticmethod
    def reaching(node: Node, tokens: int) -> Node:
        """The highest node on the path to ``node`` behind whose start the first ``tokens`` tokens end."""
        while node.parent is not None and node.parent.end >= tokens:
            node = node.parent
        return node

    @staticmethod
    def path(node: Node) -> list[Node]:
        """The nodes from the root's child down to ``node`` (empty for a root)."""
        out: list[Node] = []
        while node.parent is not None:
            out.append(node)
            node = node.parent
        out.reverse()
        return out

    def path_blocks(self, node: Node) -> Int32Array:
        """The blocks of the path to ``node``, int32, read-only."""
        return data_tokens(b"".join([n.block_data for n in self.path(node)]))

    # --- looking up -------------------------------------------------------------------------------

    def find(self, tokens: Int32Array, namespace: str = "") -> Found:
        """The longest cached prefix of ``tokens`` (int32 [n]), changing nothing, not even recency."""
        size, data = self.block_size, token_data(tokens)
        path, at, child = self._descend(namespace, data)
        locked = 0  # tokens of the path that are locked; what is below is not
        for n in path:
            if n.locks == 0:
                break
            locked = n.end
        idle = (at - locked) // size
        if child is None:
            node, source, extra = path[-1], None, 0
            if self.ordered:
                source, extra = node.closest_child(data[4 * at : 4 * (at + size)])
            return Found(path, node, node.num_tokens, at, idle, source, extra)
        shared = shared_data(child.data, data, 4 * at) // 4
        extra = shared % size
        whole = shared - extra
        if child.locks == 0:
            idle += whole // size
        return Found(path, child, whole, at + whole, idle, child if extra else None, extra)

    def holds_next(self, found: Found, tokens: Int32Array) -> bool:
        """Whether all of ``tokens`` are cached, where ``found`` is what there is of all but the last one."""
        at = found.tokens + found.extra
        if at + 1 < len(tokens):
            return False
        node, ends = found.node, found.node.start + found.inside
        if found.path[-1] is not node:  # the match ends inside a node
            inside = 4 * (at - node.start)
            return node.data[inside : inside + 4] == token_data(tokens[at:])
        rest = token_data(tokens[ends:])
        return rest in node.children or node.closest_child(rest)[1] == len(tokens) - ends

    def match(self, tokens: Int32Array, namespace: str = "") -> Match:
        """The longest cached prefix of ``tokens``; a node that it ends in is split there.

        Every node of the matched path was used now (and only those).
        """
        size, data = self.block_size, token_data(tokens)
        path, at, child = self._descend(namespace, data)
        if child is not None:  # at least its first block matches
            whole = shared_data(child.data, data, 4 * at) // (4 * size) * size
            path.append(self._split(child, whole))
            at += whole
        node = path[-1]
        self._used(node, hit=False)
        return Match(node, data_tokens(b"".join([n.block_data for n in path])), at)

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
            self._raise(result.node, priority)
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
        priority: int = 0,
    ) -> Inserted:
        """Put whole blocks of ``tokens`` below ``start``; what is there already keeps its own blocks.

        They come ``behind`` so many tokens of the path to ``start``: at its end unless told otherwise. A leaf
        that ``request`` stored grows in place, a new one has the ``priority``. Unless ``cut``, a run that is
        there already and ends inside a node leaves that node whole.
        """
        size, data = self.block_size, token_data(tokens)
        width, end, at = 4 * size, len(data), 0  # in bytes
        node = start if behind is None else self.reaching(start, behind)
        if behind is not None and behind < node.end:
            inside = 4 * (behind - node.start)
            if not cut and node.data.startswith(data, inside):
                return Inserted(node, len(tokens), EMPTY)
            at = shared_data(data, node.data, inside) // width * width
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
                node = put(node, data[at:], blocks[at // width :].tobytes(), request, priority)
                if pinned:  # the block that took the tail's place, and no more, so that the bound holds
                    self.pin(node if node.num_blocks == 1 else self._split(node, size), True)
                return Inserted(node, at // 4, dropped)
            if data.startswith(child.data, at):
                node = child
            elif not cut and child.data.startswith(data[at:]):
                return Inserted(child, len(tokens), EMPTY)
            else:
                node = self._split(child, shared_data(child.data, data, at) // width * size)
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
        priority: int = 0,
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
        node = self._add(parent, key, np.array([block], dtype=np.int32).tobytes(), request, priority)
        if pinned:
            self.pin(node, True)
        return Inserted(node, 0, dropped)

    def settle(self, found: Found) -> Node:
        """The node that ends exactly where ``found`` ends, split off where needed."""
        return self.part(found.node, found.inside)

    def part(self, node: Node, tokens: int) -> Node:
        """The node that ends behind the first ``tokens`` (whole blocks) of ``node``, split off if needed."""
        return self._split(node, tokens) if tokens < node.num_tokens else node

    def _supersede(self, parent: Node, key: bytes, request: int | None) -> tuple[Int32Array, bool]:
        """Drop the tail whose tokens a new child with ``key`` will hold as well.

        Returns its block and whether it was pinned.
        """
        tail = parent.tail_within(key)
        if tail is None or tail not in self.leaves:
            return EMPTY, False
        pinned = tail.pinned
        return data_tokens(self._cut(tail, 0, "superseded", 1, request)[0]), pinned

    def _put(self, parent: Node, data: bytes, block_data: bytes, request: int | None, priority: int) -> Node:
        # One that gave way and comes back finds what it stored before, maybe without a lock on it yet.
        grows = request is not None and parent.owner == request and parent.locks and not parent.children
        if not grows or parent.parent is None:
            return self._add(parent, data, block_data, request, priority)
        parent.data += data
        parent.end += len(data) // 4
        parent.block_data += block_data
        self.total_tokens += len(data) // 4
        self.total_blocks += len(block_data) // 4
        tokens, blocks = data_tokens(data), data_tokens(block_data)
        self.log.emit(ev.NodeExtended, node=parent.id, tokens=tokens, blocks=blocks, request=request)
        self.touch(parent)
        return parent

    def _add(self, parent: Node, data: bytes, block_data: bytes, request: int | None, priority: int) -> Node:
        log = self.log
        node = Node(self._next_id, parent, data, block_data, log.clock + 1, parent.namespace)
        self._next_id += 1
        node.owner, node.priority = request, priority
        if parent.parent is None:
            self.roots[parent.namespace] = parent  # it may just have lost its last child, and its place
        parent.add_child(node.key(self.block_size), node, self.ordered)
        self.leaves.discard(parent)
        self._raise(parent, priority)
        self.total_tokens += len(data) // 4
        self.total_blocks += len(block_data) // 4
        self.evictable += len(block_data) // 4
        if log.listening:
            log.emit(
                ev.NodeStored,
                node=node.id,
                parent=parent.id,
                namespace=node.namespace,
                tokens=node.tokens,
                blocks=node.blocks,
                request=request,
            )
        else:
            log.tick()
        self.touch(node)
        self._offer(node)
        return node

    def _split(self, node: Node, at: int) -> Node:
        size, parent = self.block_size, node.parent
        assert parent is not None
        width, blocks = 4 * at, 4 * (at // size)
        upper = Node(
            self._next_id, parent, node.data[:width], node.block_data[:blocks], node.created, node.namespace
        )
        self._next_id += 1
        upper.last = node.last
        upper.locks, upper.hits = node.locks, node.hits
        upper.priority, upper.pinned = node.priority, node.pinned
        parent.children[node.key(size)] = upper  # the same key, so the order needs no change
        node.data, node.block_data, node.parent = node.data[width:], node.block_data[blocks:], upper
        upper.add_child(node.key(size), node, self.ordered)
        if upper.pinned:
            self.pinned[upper.id] = upper
        self.log.emit(ev.NodeSplit, node=node.id, upper=upper.id, at=at)
        return upper

    # --- uses, locks and pins ---------------------------------------------------------------------

    def _used(self, node: Node, hit: bool) -> None:
        self.log.emit(ev.PathUsed, node=node.id, hit=hit)
        self.touch(node, int(hit))

    def touch(self, node: Node, hits: int = 0) -> None:
        """The record just emitted was a use of ``node`` and all above it, and ``hits`` reuses."""
        now, walk = self.log.clock, node
        while (parent := walk.parent) is not None:
            walk.last = now
            walk.hits += hits
            walk = parent
        self.leaves.changed(node)  # the nodes above it are no leaves

    def _offer(self, node: Node) -> None:
        if node.locks == 0 and not node.children:
            self.leaves.add(node)

    @staticmethod
    def _raise(node: Node, priority: int) -> None:
        """The path to ``node`` has at least this priority: no node has less than one below it [R18]."""
        while (parent := node.parent) is not None and node.priority < priority:
            node.priority = priority
            node = parent

    def lock(self, node: Node, request: int | None = None, priority: int | None = None) -> int:
        """Lock the path to ``node``; returns how many blocks stopped being evictable.

        With a ``priority`` the path takes it, where it is the larger one.
        """
        self.log.emit(ev.PathLocked, node=node.id, request=request)
        now, taken = self.log.clock, 0
        self.leaves.discard(node)
        if priority is not None:
            self._raise(node, priority)
        while (parent := node.parent) is not None:
            if node.locks == 0:
                taken += node.num_blocks
            node.locks += 1
            node.last = now
            node = parent
        self.evictable -= taken
        return taken

    def unlock(self, node: Node, request: int | None = None) -> int:
        """Unlock the path to ``node``; returns how many blocks became evictable.

        Raises ReleaseError, changing nothing, where a node of the path is not locked.
        """
        walk = node
        while (parent := walk.parent) is not None:
            if walk.locks < 1:
                raise ReleaseError(f"node {walk.id} is unlocked more often than it was locked")
            walk = parent
        self.log.emit(ev.PathUnlocked, node=node.id, request=request)
        now, given, walk = self.log.clock, 0, node
        while (parent := walk.parent) is not None:
            walk.locks -= 1
            walk.last = now
            if walk.locks == 0:
                given += walk.num_blocks
            walk = parent
        self.evictable += given
        self._offer(node)
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
        return sum(n.num_blocks for n in held.values())

    # --- eviction ---------------------------------------------------------------------------------

    def evict(self, num_blocks: int, request: int | None = None) -> Evicted:
        """Remove unlocked leaves until ``num_blocks`` blocks are free or none is left.

        Whole nodes (grain ``node``: may free more than asked) or single blocks from a leaf's end
        (grain ``block``). A parent joins the candidates when its last child goes. Raises ValueError for
        a negative number.
        """
        if num_blocks < 0:
            raise ValueError(f"can't evict {num_blocks} blocks")
        gone: list[bytes] = []
        freed = tokens = rank = 0
        while freed < num_blocks and (node := self.leaves.first()) is not None:
            rank += 1
            keep = 0 if self.grain == "node" else max(node.num_blocks - (num_blocks - freed), 0)
            blocks, lost = self._cut(node, keep, "room", rank, request)
            gone.append(blocks)
            freed += len(blocks) // 4
            tokens += lost
        return Evicted(data_tokens(b"".join(gone)), tokens)

    def _cut(self, node: Node, keep: int, reason: str, rank: int, request: int | None) -> tuple[bytes, int]:
        """Take all but the first ``keep`` blocks of an evictable leaf out of the tree."""
        parent, size, log, leaves = node.parent, self.block_size, self.log, len(self.leaves)
        assert parent is not None
        assert node in self.leaves, f"{node!r} is not an evictable leaf"
        blocks, lost = node.block_data[4 * keep :], node.num_tokens - keep * size
        self.total_tokens -= lost
        self.total_blocks -= len(blocks) // 4
        self.evictable -= len(blocks) // 4
        if keep:
            node.data, node.block_data = node.data[: 4 * keep * size], node.block_data[: 4 * keep]
            node.end -= lost
        else:
            self.leaves.discard(node)
            self.pinned.pop(node.id, None)
            parent.drop_child(node.key(size), self.ordered)
        if log.listening:
            log.emit(
                ev.NodeTrimmed if keep else ev.NodeEvicted,
                node=node.id,
                tokens=lost,
                blocks=data_tokens(blocks),
                reason=reason,
                strategy=self.strategy.name,
                rank=rank,
                age=log.clock - node.last,
                leaves=leaves,
                request=request,
            )
        else:
            log.tick()
        if keep:
            return blocks, lost
        if parent.parent is not None:
            self._offer(parent)
        elif not parent.children:
            del self.roots[parent.namespace]
        return blocks, lost
