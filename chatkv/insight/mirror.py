"""The mirror: records of the cache and the scheduler, folded into what people look at.

It knows the records and nothing else: no engine, no torch, no clock of its own. One mirror has one
owner and is changed by ``apply`` only; views read it (see ``MirrorState`` for what there is).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from chatkv.insight.blockmap import PRIVATE
from chatkv.insight.nodes import BlockState, Ghost, Mark, Node, Row
from chatkv.insight.requests import RequestView, Totals
from chatkv.insight.tree_records import TreeRecords
from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched

__all__ = ["BlockState", "Ghost", "Mark", "Mirror", "Node", "RequestView", "Row", "Totals"]

KEPT_NOTES = 100
_OVER = ("finished", "aborted")
"""Why a row is closed for good; one that was preempted will be opened again."""


class Mirror(TreeRecords):
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
            node.share(row.session)
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
            node.share(row.session)
            self._marks.reuse(node, event.request)
        self._look(node)

    def _written(self, event: kv.TokensWritten) -> None:
        self.rows[event.request].written += event.count

    def _repointed(self, event: kv.RowRepointed) -> None:
        self._blocks.states[event.new]
        row = self.rows[event.request]
        row.blocks[event.logical : event.logical + len(event.new)] = event.new.tolist()
        for owner in set(self._blocks.owner[event.new].tolist()):
            self.nodes[owner].share(row.session)
            self.changed.add(owner)

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
