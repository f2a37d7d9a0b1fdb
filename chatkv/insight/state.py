"""What a mirror holds and what views read from it. Arrays in it are replaced, never written into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from chatkv.insight.blockmap import BlockMap
from chatkv.insight.closed_rows import ClosedRows
from chatkv.insight.ends import Ends
from chatkv.insight.ghosts import Ghosts
from chatkv.insight.history import History
from chatkv.insight.integrity import violations
from chatkv.insight.lately import Lately
from chatkv.insight.marks import Marks
from chatkv.insight.nodes import BlockState, Ghost, Node, Row
from chatkv.insight.requests import RequestBook, RequestView, Totals
from chatkv.insight.tree import Tree
from chatkv.kvcache import events as kv

DEPARTED_KEPT = 10_000
"""Nodes that left, until somebody asks which."""


class MirrorState:
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
        self.departed: set[int] = set()
        self.structure_version += 1
        self._tree = Tree(event.block_size, event.strict)
        self._blocks = BlockMap(event.num_blocks)
        self._marks = Marks()
        self._ghosts = Ghosts()
        self._book = RequestBook()
        self._pins: set[int] = set()
        self._ends = Ends()
        self._closed_rows = ClosedRows(event.num_blocks)
        self._reached: tuple[tuple[int, int], frozenset[int]] = ((-1, -1), frozenset())
        self._trail: tuple[tuple[str, int, int], frozenset[int]] = (("", -1, -1), frozenset())
        self.history = History()
        self.lately = Lately()
        self._wall: float | None = None

    # What views read

    @property
    def nodes(self) -> dict[int, Node]:
        """Live nodes by id, in no particular order."""
        return self._tree.nodes

    @property
    def below(self) -> Mapping[int, int]:
        """Node id → how many live nodes are at and below it; true until the next record."""
        return self._tree.counts.below()

    @property
    def tokens(self) -> int:
        """Tokens in the tree."""
        return self._tree.tokens

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
    def waiting(self) -> list[RequestView]:
        """Who waits, in the order of their turns: ``place``, ``matched`` and ``overtaken`` say more."""
        return self._book.waiting

    @property
    def policy(self) -> str:
        """The queue policy in force as last told, ``fcfs``, ``lpm`` …; empty before anyone had to wait."""
        return self._book.policy

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
        return self._tree.evictable

    @property
    def protected(self) -> int:
        """Blocks of locked nodes and private blocks of rows. free + evictable + protected = num_blocks."""
        return self.num_blocks - self.free - self.evictable

    @property
    def pinned(self) -> frozenset[int]:
        """The nodes that a person pinned."""
        return frozenset(self._pins)

    def held_by_pins(self) -> int:
        """Blocks of the pinned nodes and of those above them, which stay as long."""
        held = {node.id: node for pin in self._pins for node in self._tree.up(pin)}
        return sum(len(node.blocks) for node in held.values())

    def end_of(self, session: str) -> int | None:
        """The node where what ``session`` last computed ends (the root: nothing of it is left).

        None where it ran nothing, or runs just now.
        """
        return self._ends.sessions.get(session)

    def closed_row(self, session: str) -> Row | None:
        """The row of the session's last request that is over, as it was then; not to be changed.

        None once the session asks again, once the cache is cleared, and where other requests took all its
        blocks; of those they took from its middle on, what comes before is left.
        """
        return self._closed_rows.of(session)

    def tip_of(self, session: str) -> int | None:
        """The deepest node of the session's newest request, open or not; None where there is none."""
        mine = [row.request for row in self.rows.values() if row.session == session]
        tip = self._ends.open.get(max(mine), kv.ROOT) if mine else self.end_of(session)
        return tip or None

    def trail(self, session: str) -> frozenset[int]:
        """The nodes that the session's conversation leads through as it stands: to where its open requests
        are, or else to where its last one ended, or that of the branch it went back to. What was evicted from
        the end of that since is among them.
        """
        at = (session, self.structure_version, self._ends.version)
        if self._trail[0] != at:
            ends = [
                self._ends.open.get(row.request, kv.ROOT)
                for row in self.rows.values()
                if row.session == session
            ]
            trail = set(self._ends.lost(session))
            for end in ends or [self._ends.sessions.get(session, kv.ROOT)]:
                for node in self._tree.up(end):
                    if node.id in trail:
                        break
                    trail.add(node.id)
            self._trail = (at, frozenset(trail))
        return self._trail[1]

    def left_behind(self, node: Node) -> bool:
        """No session's last request leads through it: an edited question, an answer that was dropped.

        Nothing that anyone would send next starts with it. What no session ever used is not among them.
        """
        return bool(node.sessions) and node.id not in self._reached_nodes()

    def _reached_nodes(self) -> frozenset[int]:
        at = (self.structure_version, self._ends.version)
        if self._reached[0] != at:
            reached: set[int] = set()
            for end in self._ends:
                for node in self._tree.up(end):
                    if node.id in reached:
                        break
                    reached.add(node.id)
            self._reached = (at, frozenset(reached))
        return self._reached[1]

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

    def _depart(self, node: int) -> None:
        self.departed.add(node)
        if len(self.departed) > DEPARTED_KEPT:
            self.departed.clear()
            self._tree.renew()

    def take_changed(self) -> set[int]:
        """Live nodes whose looks or place changed since the last call; for the owner, once a frame."""
        taken, self.changed = self.changed, set()
        return taken

    def take_departed(self) -> set[int]:
        """Nodes that left the tree since the last call; ids that came and went in between are among them.

        They are forgotten where nobody asks for long: ``nodes`` is another dict then, and all may be new.
        """
        taken, self.departed = self.departed, set()
        return taken

    def copy(self) -> Self:
        """An independent copy: it stays as it is while this one goes on."""
        *_, twin = self.copying(len(self.nodes))
        assert twin is not None
        return twin

    def copying(self, step: int = 200) -> Iterator[Self | None]:
        """The same bit by bit, about a millisecond each: None as long as there is more to do, then the copy.

        No record may be applied meanwhile.
        """
        tree = yield from self._tree.copying(step)
        yield None
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.gaps, twin.faults = self.gaps.copy(), self.faults.copy()
        twin.changed, twin.departed = self.changed.copy(), self.departed.copy()
        twin._pins, twin._ends, twin.history = self._pins.copy(), self._ends.copy(), self.history.copy()
        twin.lately, twin._closed_rows = self.lately.copy(), self._closed_rows.copy()
        twin.rows = {request: row.copy() for request, row in self.rows.items()}
        twin._tree, twin._blocks, twin._marks = tree, self._blocks.copy(), self._marks.copy()
        twin._ghosts, twin._book = self._ghosts.copy(), self._book.copy()
        yield twin

    def check(self) -> list[str]:
        """Violated invariants in words; empty when all is well. Looks at everything, so it is slow."""
        return violations(self)
