"""Which nodes of a radix tree have to stay, by lock or pin, and which go where room is asked for."""

from __future__ import annotations

import numpy as np

from chatkv.kvcache import events as ev
from chatkv.kvcache.errors import CacheError, ReleaseError
from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.node import EMPTY, Node
from chatkv.kvcache.radix_nodes import RadixNodes
from chatkv.kvcache.results import Evicted


class RadixLocks(RadixNodes):
    """Locks go along a whole path; eviction takes unlocked leaves, in the strategy's order."""

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
