"""The mirror: records of the cache and the scheduler, folded into what people look at.

It knows the records and nothing else: no engine, no torch, no clock of its own. One mirror has one
owner and is changed by ``apply`` only; views read it (see ``MirrorState`` for what there is).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from chatkv.insight.blockmap import PRIVATE
from chatkv.insight.ghosts import Ghosts
from chatkv.insight.nodes import BlockState, Ghost, Mark, Node, Row
from chatkv.insight.requests import RequestView, Totals
from chatkv.insight.state import MirrorState
from chatkv.insight.tree import Tree
from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched

__all__ = ["BlockState", "Ghost", "Mark", "Mirror", "Node", "RequestView", "Row", "Totals"]

KEPT_NOTES = 100
_OVER = ("finished", "aborted")
"""Why a row is closed for good; one that was preempted will be opened again."""


class Mirror(MirrorState):
    """``apply`` folds one record. All the rest is reading."""

    def apply_all(self, events: Iterable[kv.Event], wall: float | None = None) -> None:
        """Apply each in order."""
        for event in events:
            self.apply(event, wall)

    def apply(self, event: kv.Event, wall: float | None = None) -> None:
        """Fold one record. ``wall`` (seconds since 1970) only labels ghosts.

        Never raises on a strange stream: kinds it does not know are ignored, a record from the past
        is skipped, a jump is noted in ``gaps``, and what can't be applied is noted in ``faults``.
        """
        if not isinstance(event, kv.CacheCreated) and self.seq and event.seq != self.seq + 1:
            _note(self.gaps, (self.seq + 1, event.seq))
            if event.seq <= self.seq:
                return
        self.seq = event.seq
        self._wall = wall
        handler = _HANDLERS.get(type(event))
        if handler is None:
            return
        self.history.add(event)
        self.lately.add(event, wall)
        try:
            handler(self, event)
        except (KeyError, IndexError, ValueError) as error:
            _note(self.faults, f"{type(event).__name__} {event.seq}: {error!r}")

    def _look(self, *nodes: Node) -> None:
        """Their looks may have changed."""
        for node in nodes:
            self._blocks.paint(node.blocks, node.state)
            self.changed.add(node.id)

    def fade(self, before: float) -> bool:
        """Let go of what was evicted before wall time ``before``; True where there was something.

        For whoever shows a live picture: a ghost stays a short while, also when nothing more happens.
        Folding alone keeps ghosts until two more requests open, and is not changed by this.
        """
        stale = {
            key: ghost for key, ghost in self.ghosts.items() if ghost.wall is not None and ghost.wall < before
        }
        for key, ghost in stale.items():
            self._ghosts.drop(key)
            self._blocks.fade(ghost.blocks)
        self.structure_version += bool(stale)
        return bool(stale)

    def stand(self, session: str, request: int) -> bool:
        """A person went back to what ``request`` answered, or forked there: that is no branch left behind.

        For whoever shows a live picture; no event tells of it. False where nothing looks other by it.
        """
        moved = self._ends.stand(session, request)
        self.structure_version += moved
        return moved

    def _use(self, node: Node, seq: int) -> None:
        """Every node on the path was last used now; in ``hash`` a use is of single nodes."""
        for found in [node] if self.cache == "hash" else self._tree.up(node.id):
            found.last_seq, found.used_epoch = seq, self.epoch
            self.changed.add(found.id)

    def _session(self, node: Node, request: int | None) -> None:
        row = None if request is None else self.rows.get(request)
        if row is not None:
            node.sessions.add(row.session)

    def _opened(self, event: kv.RequestOpened) -> None:
        self.epoch += 1
        self._look(*self._marks.open(event.request, self.nodes))
        self._blocks.expire(self.epoch - 2)
        if self._ghosts.expire(self.epoch - 2):
            self.structure_version += 1
        self.rows[event.request] = Row(
            event.request, event.session, event.namespace, self.block_size, event.prompt_tokens, event.resumed
        )
        self._closed_rows.drop(event.session)
        self._book.opened(event)
        self._ends.start(event.request, event.session)

    def _reused(self, event: kv.PrefixReused) -> None:
        row = self.rows[event.request]
        path = [self.nodes[node] for node in event.path]
        self._blocks.states[event.blocks]
        row.blocks.extend(event.blocks.tolist())
        row.reused_blocks, row.reused, row.written = len(event.blocks), event.tokens, event.tokens
        for node in path:
            node.hits += 1
            node.sessions.add(row.session)
            self._marks.reuse(node, event.request)
            self._look(node)
        if path:
            self._ends.reach(event.request, path[-1].id)
        if not row.resumed:
            self._book.reused(event)

    def _allocated(self, event: kv.BlocksAllocated) -> None:
        row = self.rows[event.request]
        self._blocks.allocate(event.blocks)
        self._closed_rows.take(event.blocks, event.seq)
        row.blocks.extend(event.blocks.tolist())

    def _copied(self, event: kv.SlotsCopied) -> None:
        row = self.rows[event.request]
        row.written += event.tokens
        row.copied += event.tokens
        if not row.resumed:
            self._book.copied(event)
        if event.node is None:
            return
        node = self.nodes[event.node]
        self._use(node, event.seq)
        node.copied_epoch = self.epoch
        # A node of which only a few tokens were copied was not reused as a node: it keeps its mark.
        if event.tokens == len(node.tokens):
            node.sessions.add(row.session)
            self._marks.reuse(node, event.request)
        self._look(node)

    def _written(self, event: kv.TokensWritten) -> None:
        self.rows[event.request].written += event.count

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

    def _repointed(self, event: kv.RowRepointed) -> None:
        self._blocks.states[event.new]
        row = self.rows[event.request]
        row.blocks[event.logical : event.logical + len(event.new)] = event.new.tolist()
        for owner in set(self._blocks.owner[event.new].tolist()):
            self.nodes[owner].sessions.add(row.session)
            self.changed.add(owner)

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
        self.departed.add(node.id)
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

    def _freed(self, event: kv.BlocksFreed) -> None:
        self._blocks.release(event.blocks, PRIVATE)
        row = self.rows.get(event.request)
        if row is not None:
            if event.reason in _OVER:
                self._closed_rows.keep(row, event.seq)
            gone = set(event.blocks.tolist())
            row.blocks = [block for block in row.blocks if block not in gone]

    def _accounted(self, event: kv.PromptAccounted) -> None:
        row = self.rows.get(event.request)
        if row is None or not row.resumed:
            self._book.accounted(event)

    def _closed(self, event: kv.RequestClosed) -> None:
        row = self.rows.pop(event.request)
        if event.reason in _OVER:
            self._closed_rows.keep(row, event.seq)
        self._ends.close(event.request, row.session)
        self._look(*self._marks.close(event.request, self.nodes))
        self._book.closed(event)

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

    def _planned(self, event: sched.StepPlanned) -> None:
        self._book.planned(event, self.rows)


def _note(notes: list[Any], note: Any) -> None:
    notes.append(note)
    del notes[:-KEPT_NOTES]


def _to_book(kind: str) -> Callable[[Mirror, Any], None]:
    def handle(mirror: Mirror, event: Any) -> None:
        getattr(mirror._book, kind)(event)

    return handle


_HANDLERS: dict[type[kv.Event], Callable[[Mirror, Any], None]] = {
    kv.CacheCreated: Mirror._reset,
    kv.RequestOpened: Mirror._opened,
    kv.PrefixReused: Mirror._reused,
    kv.BlocksAllocated: Mirror._allocated,
    kv.SlotsCopied: Mirror._copied,
    kv.TokensWritten: Mirror._written,
    kv.NodeStored: Mirror._stored,
    kv.NodeExtended: Mirror._extended,
    kv.NodeSplit: Mirror._split,
    kv.PathLocked: Mirror._locked,
    kv.PathUnlocked: Mirror._unlocked,
    kv.PathUsed: Mirror._path_used,
    kv.ChildrenMoved: Mirror._children_moved,
    kv.RowRepointed: Mirror._repointed,
    kv.NodeEvicted: Mirror._evicted,
    kv.NodeTrimmed: Mirror._trimmed,
    kv.NodePinned: Mirror._pinned,
    kv.PromptAccounted: Mirror._accounted,
    kv.BlocksFreed: Mirror._freed,
    kv.RequestClosed: Mirror._closed,
    kv.CacheCleared: Mirror._cleared,
    sched.RequestQueued: _to_book("queued"),
    sched.RequestRefused: _to_book("refused"),
    sched.RequestAdmitted: _to_book("admitted"),
    sched.QueueOrdered: _to_book("ordered"),
    sched.RequestPreempted: _to_book("preempted"),
    sched.StepPlanned: Mirror._planned,
    sched.StepDone: _to_book("step_done"),
    sched.FirstToken: _to_book("first_token"),
    sched.RequestFinished: _to_book("finished"),
}
