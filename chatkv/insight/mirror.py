"""The mirror: records of the cache and the scheduler, folded into what people look at.

It knows the records and nothing else: no engine, no torch, no clock of its own. One mirror has one
owner and is changed by ``apply`` only; views read it. Arrays in it are replaced, never written into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chatkv.insight.blockmap import PRIVATE, BlockMap
from chatkv.insight.ghosts import Ghosts
from chatkv.insight.marks import Marks
from chatkv.insight.nodes import BlockState, Ghost, Mark, Node, Row
from chatkv.insight.requests import (
    FINISHED,
    PREEMPTED,
    REFUSED,
    RUNNING,
    WAITING,
    RequestBook,
    RequestView,
    Totals,
)
from chatkv.insight.tree import Tree
from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched

__all__ = ["BlockState", "Ghost", "Mark", "Mirror", "Node", "RequestView", "Row", "Totals"]

KEPT_NOTES = 100


class Mirror:
    """The state of one cache at ``seq``.

    ``nodes``: live nodes by id, the root (id 0) among them. ``rows``: rows of open requests.
    ``epoch``: how many requests were opened so far. ``structure_version`` grows whenever a node or
    ghost comes, goes or moves. ``gaps``: the latest ``(expected, got)`` where ``seq`` jumped or went
    back. ``faults``: records that could not be applied, in words (only after a gap).
    """

    def __init__(self) -> None:
        self.gaps: list[tuple[int, int]] = []
        self.faults: list[str] = []
        self.structure_version = 0
        self._reset(
            kv.CacheCreated(seq=0, num_blocks=0, block_size=1, cache="", eviction="", grain="", strict=True)
        )

    def _reset(self, event: kv.CacheCreated) -> None:
        self.seq = event.seq
        self.num_blocks, self.block_size, self.cache = event.num_blocks, event.block_size, event.cache
        self.eviction, self.grain, self.strict = event.eviction, event.grain, event.strict
        self.epoch = 0
        self.rows: dict[int, Row] = {}
        self.changed: set[int] = {kv.ROOT}
        self.structure_version += 1
        self._tree = Tree(event.block_size, event.strict)
        self._blocks = BlockMap(event.num_blocks)
        self._marks = Marks()
        self._ghosts = Ghosts()
        self._book = RequestBook()
        self._evictable = 0
        self._wall: float | None = None

    # What views read

    @property
    def nodes(self) -> dict[int, Node]:
        """Live nodes by id, in no particular order."""
        return self._tree.nodes

    @property
    def ghosts(self) -> dict[int, Ghost]:
        """What was evicted lately, newest last, at most 64, gone when two more requests have opened.

        The key is the node id; for the trimmed end of a node that is still there, minus its id.
        Tails that were superseded leave no ghost: their tokens are still in the tree.
        """
        return self._ghosts.kept

    @property
    def requests(self) -> dict[int, RequestView]:
        """Waiting and running requests, and the last 256 that are over."""
        return self._book.views

    @property
    def totals(self) -> Totals:
        """Sums since the cache was created."""
        return self._book.totals

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return self._blocks.free

    @property
    def evictable(self) -> int:
        """Blocks of nodes that nobody locks."""
        return self._evictable

    @property
    def protected(self) -> int:
        """Blocks of locked nodes and private blocks of rows. free + evictable + protected = num_blocks."""
        return self.num_blocks - self.free - self._evictable

    def block_state(self, block: int) -> BlockState:
        """What the block looks like; IndexError where there is no such block."""
        return BlockState(int(self._blocks.states[block]))

    def block_states(self) -> npt.NDArray[np.uint8]:
        """``BlockState`` values, uint8 ``[num_blocks]``: a read-only view that changes with the mirror."""
        view = self._blocks.states.view()
        view.flags.writeable = False
        return view

    def block_node(self, block: int) -> int | None:
        """The node that owns the block, or None (free or private)."""
        owner = int(self._blocks.owner[block])
        return owner if owner >= 0 else None

    def block_requests(self, block: int) -> list[int]:
        """The open requests with the block in their row."""
        return [row.request for row in self.rows.values() if block in row.blocks]

    def path(self, node: int) -> list[int]:
        """Ids from the root's child down to ``node``; empty for the root. KeyError if it is not live."""
        return self._tree.path(node)

    def match(self, tokens: Sequence[int] | kv.Int32Array, namespace: str = "") -> tuple[list[int], int]:
        """Path of node ids (root's child first) and tokens a prompt would share; see ``Tree.match``."""
        return self._tree.match(tokens, namespace)

    def take_changed(self) -> set[int]:
        """Live nodes whose looks or place changed since the last call; for the owner, once a frame."""
        taken, self.changed = self.changed, set()
        return taken

    def copy(self) -> Mirror:
        """An independent copy: it stays as it is while this one goes on."""
        twin = Mirror.__new__(Mirror)
        twin.__dict__.update(self.__dict__)
        twin.gaps, twin.faults, twin.changed = self.gaps.copy(), self.faults.copy(), self.changed.copy()
        twin.rows = {request: row.copy() for request, row in self.rows.items()}
        twin._tree, twin._blocks, twin._marks = self._tree.copy(), self._blocks.copy(), self._marks.copy()
        twin._ghosts, twin._book = self._ghosts.copy(), self._book.copy()
        return twin

    def check(self) -> list[str]:
        """Violated invariants in words; empty when all is well. Looks at everything, so it is slow."""
        from chatkv.insight.integrity import violations

        return violations(self)

    # Folding

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
        try:
            handler(self, event)
        except (KeyError, IndexError, ValueError) as error:
            _note(self.faults, f"{type(event).__name__} {event.seq}: {error}")

    def _look(self, *nodes: Node) -> None:
        """Their looks may have changed."""
        for node in nodes:
            self._blocks.paint(node.blocks, node.state)
            self.changed.add(node.id)

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
        view = self._book.get(event.request, event.session)
        view.state, view.prefilled = RUNNING, 0
        if not event.resumed:
            view.prompt_tokens, view.cached, view.copied = event.prompt_tokens, 0, 0

    def _reused(self, event: kv.PrefixReused) -> None:
        row = self.rows[event.request]
        path = [self.nodes[node] for node in event.path]
        row.blocks.extend(event.blocks.tolist())
        row.reused_blocks, row.reused, row.written = len(event.blocks), event.tokens, event.tokens
        for node in path:
            node.last_seq, node.used_epoch = event.seq, self.epoch
            node.hits += not row.resumed
            node.sessions.add(row.session)
            self._marks.reuse(node, event.request)
            self._look(node)
        if not row.resumed:
            self._book.get(event.request).cached = event.tokens

    def _allocated(self, event: kv.BlocksAllocated) -> None:
        row = self.rows[event.request]
        self._blocks.allocate(event.blocks)
        row.blocks.extend(event.blocks.tolist())

    def _copied(self, event: kv.SlotsCopied) -> None:
        row = self.rows[event.request]
        row.written += event.tokens
        row.copied += event.tokens
        if not row.resumed:
            view = self._book.get(event.request)
            view.cached += event.tokens
            view.copied += event.tokens
        if event.node is None:
            return
        node = self.nodes[event.node]
        node.last_seq, node.used_epoch = event.seq, self.epoch
        # A node of which only a few tokens were copied was not reused as a node: it keeps its mark.
        if event.tokens == len(node.tokens):
            node.hits += not row.resumed
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
        self._evictable += len(event.blocks)
        self._session(node, event.request)
        self._marks.store(node, event.request)
        self._look(node)
        self.changed.add(event.parent)
        self.structure_version += 1

    def _extended(self, event: kv.NodeExtended) -> None:
        node = self.nodes[event.node]
        self._blocks.store(event.blocks, event.node)
        self._tree.extend(node, event.tokens, event.blocks)
        self._evictable += 0 if node.locks else len(event.blocks)
        node.last_seq, node.used_epoch = event.seq, self.epoch
        self._session(node, event.request)
        self._marks.store(node, event.request)
        self._look(node)
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
        self._look(upper, node)
        self.changed.add(upper.parent)
        self.structure_version += 1

    def _locked(self, event: kv.PathLocked) -> None:
        for node in self._tree.up(event.node):
            node.locks += 1
            if node.locks == 1:
                self._evictable -= len(node.blocks)
            self._look(node)

    def _unlocked(self, event: kv.PathUnlocked) -> None:
        for node in self._tree.up(event.node):
            node.locks -= 1
            if node.locks == 0:
                self._evictable += len(node.blocks)
            self._look(node)

    def _repointed(self, event: kv.RowRepointed) -> None:
        row = self.rows[event.request]
        row.blocks[event.logical : event.logical + len(event.new)] = event.new.tolist()

    def _evicted(self, event: kv.NodeEvicted) -> None:
        node = self.nodes[event.node]
        if node.children or node.id == kv.ROOT:
            raise ValueError(f"node {node.id} is no leaf")
        self._leave(event, node.blocks, node)
        if event.reason != "superseded":
            self._ghosts.add_node(node, self._tree.path(node.id), event, self.epoch, self._wall)
        self._tree.remove(node)
        self.changed.discard(node.id)
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
        self._evictable -= 0 if node.locks else len(blocks)
        if superseded:
            self.totals.superseded += 1
        else:
            self.totals.evictions += 1
            self.totals.evicted_blocks += len(blocks)

    def _pinned(self, event: kv.NodePinned) -> None:
        node = self.nodes[event.node]
        node.pinned = event.pinned
        self.changed.add(node.id)

    def _freed(self, event: kv.BlocksFreed) -> None:
        self._blocks.release(event.blocks, PRIVATE)
        row = self.rows.get(event.request)
        if row is not None:
            gone = set(event.blocks.tolist())
            row.blocks = [block for block in row.blocks if block not in gone]

    def _accounted(self, event: kv.PromptAccounted) -> None:
        row = self.rows.get(event.request)
        if row is None or not row.resumed:
            self._book.account(event)

    def _closed(self, event: kv.RequestClosed) -> None:
        del self.rows[event.request]
        self._look(*self._marks.close(event.request, self.nodes))
        view = self._book.get(event.request)
        if event.reason != "preempted":
            self._book.end(view, FINISHED, event.reason)
        elif not view.over:
            view.state = PREEMPTED

    def _cleared(self, event: kv.CacheCleared) -> None:
        self._tree = Tree(self.block_size, self.strict)
        self._blocks.clear()
        self._ghosts = Ghosts()
        self._evictable = 0
        for row in self.rows.values():
            row.blocks, row.written = [], 0
        self.changed = {kv.ROOT}
        self.structure_version += 1

    def _queued(self, event: sched.RequestQueued) -> None:
        view = self._book.get(event.request, event.session, WAITING)
        view.prompt_tokens = event.prompt_tokens

    def _refused(self, event: sched.RequestRefused) -> None:
        self._book.end(self._book.get(event.request, event.session, WAITING), REFUSED, event.reason)

    def _admitted(self, event: sched.RequestAdmitted) -> None:
        view = self._book.get(event.request)
        view.state, view.prefilled = RUNNING, 0
        if not view.preemptions:
            view.cached, view.copied = event.cached, event.copied

    def _preempted(self, event: sched.RequestPreempted) -> None:
        view = self._book.get(event.request)
        view.state, view.reason = PREEMPTED, event.reason
        view.preemptions += 1
        self.totals.preempted += 1

    def _planned(self, event: sched.StepPlanned) -> None:
        samples = list(event.decode)
        for request, tokens in event.prefill:
            view, row = self._book.get(request), self.rows.get(request)
            view.prefilled += tokens
            if row is not None and row.written + tokens >= row.prompt_tokens:
                samples.append(request)
        self._book.will_sample(tuple(samples))

    def _step_done(self, event: sched.StepDone) -> None:
        self._book.step_done()

    def _first_token(self, event: sched.FirstToken) -> None:
        self._book.get(event.request).ttft_s = event.ttft_s

    def _finished(self, event: sched.RequestFinished) -> None:
        view = self._book.get(event.request, event.session)
        self._book.end(view, FINISHED, event.reason)
        self._book.set_output(view, event.output_tokens)
        view.prompt_tokens, view.cached, view.copied = event.prompt_tokens, event.cached, event.copied
        view.ttft_s, view.decode_s = event.ttft_s, event.decode_s


def _note(notes: list[Any], note: Any) -> None:
    notes.append(note)
    del notes[:-KEPT_NOTES]


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
    kv.RowRepointed: Mirror._repointed,
    kv.NodeEvicted: Mirror._evicted,
    kv.NodeTrimmed: Mirror._trimmed,
    kv.NodePinned: Mirror._pinned,
    kv.PromptAccounted: Mirror._accounted,
    kv.BlocksFreed: Mirror._freed,
    kv.RequestClosed: Mirror._closed,
    kv.CacheCleared: Mirror._cleared,
    sched.RequestQueued: Mirror._queued,
    sched.RequestRefused: Mirror._refused,
    sched.RequestAdmitted: Mirror._admitted,
    sched.RequestPreempted: Mirror._preempted,
    sched.StepPlanned: Mirror._planned,
    sched.StepDone: Mirror._step_done,
    sched.FirstToken: Mirror._first_token,
    sched.RequestFinished: Mirror._finished,
}
