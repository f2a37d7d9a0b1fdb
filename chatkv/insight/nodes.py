"""The things a mirror holds: nodes of the tree, ghosts of evicted ones, rows, and what a block looks like."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum

from chatkv.kvcache.events import Int32Array

SHARERS_KEPT = 1_000
"""Sessions of a node: a prompt that all begin with would gather every session there ever was."""


class BlockState(IntEnum):
    """What one physical block looks like; the value is what ``Mirror.block_states`` holds."""

    FREE = 0
    NEW = 1
    REUSED = 2
    EVICTED = 3
    """Free again, evicted a short while ago."""
    IDLE = 4
    LOCKED = 5
    """In a locked node that is neither new nor reused."""

    @property
    def glyph(self) -> str:
        """One character that carries the state without colour."""
        return GLYPHS[self]


GLYPHS = ".+=x·#"
"""``GLYPHS[state]`` for each ``BlockState``."""


class Mark(Enum):
    """What the latest or an open request did to a node."""

    NEW = "new"
    REUSED = "reused"
    IDLE = "idle"

    @property
    def glyph(self) -> str:
        """``+``, ``=`` or ``·``."""
        return _MARK_GLYPHS[self]


_MARK_GLYPHS = {Mark.NEW: "+", Mark.REUSED: "=", Mark.IDLE: "·"}


@dataclass(slots=True, eq=False)
class Node:
    """A live node. ``tokens`` int32 ``[n]`` and ``blocks`` int32 ``[m]`` are replaced, never written into."""

    id: int
    parent: int
    """-1 for the root."""
    tokens: Int32Array
    blocks: Int32Array
    namespace: str
    request: int | None
    """Who stored it; None where no request did."""
    created_seq: int
    created_epoch: int
    last_seq: int
    used_epoch: int
    is_tail: bool = False
    """True: its one block is partly filled."""
    locks: int = 0
    hits: int = 0
    """How often a request started with it (copied slots don't count)."""
    pinned: bool = False
    copied_epoch: int = -1
    """When slots of it were last copied."""
    mark: Mark = Mark.IDLE
    children: list[int] = field(default_factory=list)
    sharers: dict[str, None] = field(default_factory=dict)
    """What ``sessions`` is made from, the latest at the end."""
    news: int = 0
    """How many active requests stored into it; what ``mark`` is made from."""
    reuses: int = 0
    """How many active requests reused it; what ``mark`` is made from."""

    @property
    def sessions(self) -> Set[str]:
        """Those that stored or reused it; of more than ``SHARERS_KEPT`` the latest."""
        return self.sharers.keys()

    def share(self, session: str) -> None:
        """``session`` stored or reused it."""
        self.sharers.pop(session, None)
        self.sharers[session] = None
        if len(self.sharers) > SHARERS_KEPT:
            del self.sharers[next(iter(self.sharers))]

    @property
    def glyph(self) -> str:
        """``+`` new, ``=`` reused, ``#`` locked, ``·`` idle."""
        return BlockState.LOCKED.glyph if self.mark is Mark.IDLE and self.locks else self.mark.glyph

    @property
    def state(self) -> BlockState:
        """What its blocks look like."""
        if self.reuses:
            return BlockState.REUSED
        if self.news:
            return BlockState.NEW
        return BlockState.LOCKED if self.locks else BlockState.IDLE

    def copy(self) -> Node:
        """An independent copy (arrays are shared: nobody writes into them)."""
        # One by one: ``replace`` takes three times as long, and a pause may copy a hundred thousand.
        return Node(
            self.id,
            self.parent,
            self.tokens,
            self.blocks,
            self.namespace,
            self.request,
            self.created_seq,
            self.created_epoch,
            self.last_seq,
            self.used_epoch,
            self.is_tail,
            self.locks,
            self.hits,
            self.pinned,
            self.copied_epoch,
            self.mark,
            self.children.copy(),
            self.sharers.copy(),
            self.news,
            self.reuses,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Ghost:
    """What was evicted: a whole node, or (``part``) the end of a node that is still there."""

    node: int
    parent: int
    """Where it hung: a live node or another ghost; for a part, the node itself."""
    path: tuple[int, ...]
    """Node ids from the root's child down to ``node``, as they were when it was evicted."""
    tokens: Int32Array
    blocks: Int32Array
    part: bool
    created_seq: int
    reason: str
    evicted_seq: int
    evicted_epoch: int
    wall: float | None
    """Wall-clock label of the eviction, seconds since 1970."""
    sessions: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class Row:
    """An open request's row of the block table: logical block → physical block."""

    request: int
    session: str
    namespace: str
    block_size: int
    prompt_tokens: int
    """Of this attempt: a resumed request's prompt includes what it had generated."""
    resumed: bool
    blocks: list[int] = field(default_factory=list)
    written: int = 0
    """Tokens whose KV exists."""
    reused: int = 0
    """Tokens reused from the tree at the start."""
    reused_blocks: int = 0
    copied: int = 0
    """Tokens that came by copied slots."""

    def filled(self, logical: int) -> int:
        """How many tokens the logical block holds: 0 … block size."""
        return max(0, min(self.block_size, self.written - logical * self.block_size))

    def copy(self) -> Row:
        """An independent copy."""
        return replace(self, blocks=self.blocks.copy())
