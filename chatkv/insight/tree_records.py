"""The records that speak of the tree, folded: what came, grew, was cut, moved, locked, used and evicted."""

from __future__ import annotations

from chatkv.insight.ghosts import Ghosts
from chatkv.insight.nodes import Node
from chatkv.insight.state import MirrorState
from chatkv.insight.tree import Tree
from chatkv.kvcache import events as kv


class TreeRecords(MirrorState):
    """A method for each kind. KeyError, IndexError or ValueError where a record can't be applied."""

    def _look(self, *nodes: Node) -> None:
        """Their looks may have changed."""
        for node in nodes:
            self._blocks.paint(node.blocks, node.state)
            self.changed.add(node.id)

    def _use(self, node: Node, seq: int) -> None:
        """Every node on the path was last used now; in ``hash`` a use is of single nodes."""
        for found in [node] if self.cache == "hash" else self._tree.up(node.id):
            found.last_seq, found.used_epoch = seq, self.epoch
            self.changed.add(found.id)

    def _session(self, node: Node, request: int | None) -> None:
        row = None if request is None else self.rows.get(request)
        if row is not None:
            node.share(row.session)

    def _stored(self, event: kv.NodeStored) -> None:
        self.nodes[event.parent]
        self._blocks.store(event.blocks, event.node)
        node = Node(
            event.node,
            event.parent,
            event.tokens,
            event.blocks,
            event.namespace,
            event.request,
            created_seq=event.seq,
            created_epoch=self.epoch,
            last_seq=event.seq,
            used_epoch=self.epoch,
        )
        self._tree.add(node)
        self._use(node, event.seq)
        self._session(node, event.request)
        self._marks.store(node, event.request)
        self._look(node)
        self._ends.reach(event.request, node.id)
        self.structure_version += 1

    def _extended(self, event: kv.NodeExtended) -> None:
        node = self.nodes[event.node]
        self._blocks.store(event.blocks, event.node)
        self._tree.extend(node, event.tokens, event.blocks)
        self._use(node, event.seq)
        self._session(node, event.request)
        self._marks.store(node, event.request)
        self._look(node)
        self._ends.reach(event.request, node.id)
        if self._ghosts.drop(-node.id):
            self.structure_version += 1

    def _split(self, event: kv.NodeSplit) -> None:
        node = self.nodes[event.node]
        if not 0 < event.at < len(node.tokens) or event.at % self.block_size:
            raise ValueError(f"node {event.node} of {len(node.tokens)} tokens can't be cut after {event.at}")
        self._blocks.move(node.blocks[: event.at // self.block_size], event.node, event.upper)
        upper = node.copy()
        upper.id, upper.is_tail = event.upper, False
        self._tree.split(node, upper, event.at)
        self._marks.split(node, upper)
        if upper.pinned:
            self._pins.add(upper.id)
        self._look(upper, node)
        self.changed.add(upper.parent)
        self.structure_version += 1

    def _locked(self, event: kv.PathLocked) -> None:
        self._lock(event, 1)
        self._ends.reach(event.request, event.node)

    def _unlocked(self, event: kv.PathUnlocked) -> None:
        self._lock(event, -1)

    def _lock(self, event: kv.PathLocked | kv.PathUnlocked, count: int) -> None:
        nodes = [self.nodes[node] for node in event.nodes] or self._tree.up(event.node)
        for node in nodes:
            self._tree.lock(node, count)
            node.last_seq, node.used_epoch = event.seq, self.epoch
            self._look(node)

    def _path_used(self, event: kv.PathUsed) -> None:
        for node in self._tree.up(event.node):
            node.hits += event.hit
            node.last_seq, node.used_epoch = event.seq, self.epoch
            self.changed.add(node.id)

    def _children_moved(self, event: kv.ChildrenMoved) -> None:
        node, heir = self.nodes[event.node], self.nodes[event.heir]
        self.changed.update(node.children, (node.id, heir.id))
        self._tree.succeed(node, heir)
        self._ends.replace(node.id, heir.id)
        self.structure_version += 1

    def _evicted(self, event: kv.NodeEvicted) -> None:
        node = self.nodes[event.node]
        if node.children or node.id == kv.ROOT:
            raise ValueError(f"node {node.id} is no leaf")
        self._leave(event, node.blocks, node)
        if event.reason != "superseded":
            self._ghosts.add_node(node, self._tree.path(node.id), event, self.epoch, self._wall)
        self._tree.remove(node)
        self._pins.discard(node.id)
        self._ends.evict(node.id, node.parent)
        self.changed.discard(node.id)
        self._depart(node.id)
        self.changed.add(node.parent)
        self.structure_version += 1

    def _trimmed(self, event: kv.NodeTrimmed) -> None:
        node = self.nodes[event.node]
        if node.children or not 0 < event.tokens < len(node.tokens):
            raise ValueError(f"{event.tokens} tokens can't be cut off node {node.id}")
        self._leave(event, event.blocks, node)
        tokens = self._tree.trim(node, event.tokens, len(event.blocks))
        if event.reason != "superseded":
            self._ghosts.add_part(node, tokens, self._tree.path(node.id), event, self.epoch, self._wall)
        self.changed.add(node.id)
        self.structure_version += 1

    def _leave(self, event: kv.NodeEvicted | kv.NodeTrimmed, blocks: kv.Int32Array, node: Node) -> None:
        """Tree → free, and the counts that go with it."""
        superseded = event.reason == "superseded"
        self._blocks.release(blocks, node.id, None if superseded else self.epoch)
        if superseded:
            self.totals.superseded += 1
        else:
            self.totals.evictions += 1
            self.totals.evicted_blocks += len(blocks)

    def _pinned(self, event: kv.NodePinned) -> None:
        node = self.nodes[event.node]
        node.pinned = event.pinned
        (self._pins.add if event.pinned else self._pins.discard)(node.id)
        self.changed.add(node.id)

    def _cleared(self, event: kv.CacheCleared) -> None:
        self.departed.update(self.nodes.keys() - {kv.ROOT})
        self._tree = Tree(self.block_size, self.strict)
        self._blocks.clear()
        self._pins.clear()
        self._ends.clear()
        self._closed_rows.clear()
        self._ghosts = Ghosts()
        for row in self.rows.values():
            row.blocks, row.written = [], 0
        self.changed = {kv.ROOT}
        self.structure_version += 1
