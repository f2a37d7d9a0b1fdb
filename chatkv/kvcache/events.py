"""What the cache core did, as typed records ordered by a logical clock.

Whatever people see is folded from these records and never read out of live structures: the live
view, snapshots, time travel and replay all start here. Folding every record of a cache, in order,
gives its state exactly: which block is where, every request's row, the whole tree and its locks.

Conventions
-----------
* ``seq`` is the logical clock: 1, 2, 3, … within one log, no gaps. It is also the time that
  recency is measured in. Wall time is never in a record.
* ``request`` is a request id, ``node`` a node id; neither is ever used again for something else.
* ``tokens`` (int32 ``[n]``) and ``blocks`` (int32 ``[m]``) are read-only arrays.
* A block is in exactly one place: *free*, *private* (in one request's row only) or *tree* (owned
  by one node, and possibly in rows as well).
* In a ``hash`` cache every node is one block. Two requests that compute the same tokens at once both
  keep their block: such duplicates are siblings with the same tokens. What follows hangs under the
  first of them, whichever of them the row names, so rows lock single nodes instead of paths, and
  recency is a node's own.

The information on the wire of vLLM and SGLang (``BlockStored``, ``BlockRemoved``,
``AllBlocksCleared``) is derived from these records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]

ROOT = 0
"""Node id of the root; the root holds no tokens, is always locked and is never evicted."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Event:
    """Base of all records: ``seq`` is the logical clock."""

    seq: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CacheCreated(Event):
    """A cache starts empty: all ``num_blocks`` blocks are free. Resets whatever was folded before."""

    num_blocks: int
    block_size: int
    cache: str
    """``radix``, ``hash`` or ``none``."""
    eviction: str
    grain: str
    strict: bool
    """True: a match is rounded down to whole blocks; no partly filled block is ever shared."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RequestOpened(Event):
    """A request got an (empty) row in the block table."""

    request: int
    session: str
    namespace: str
    prompt_tokens: int
    resumed: bool
    """True when a preempted request comes back: what it matches now is not a reuse."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PrefixReused(Event):
    """The row starts with ``blocks`` of the tree; nodes on ``path`` (root's child first) were used now.

    ``tokens`` counts the reused tokens; the request's written count starts there.
    """

    request: int
    path: tuple[int, ...]
    blocks: Int32Array
    tokens: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BlocksAllocated(Event):
    """Free → private: ``blocks`` were put behind the row, the first at logical index ``logical``."""

    request: int
    logical: int
    blocks: Int32Array


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SlotsCopied(Event):
    """The first ``tokens`` slots of block ``source`` were copied into ``target`` (the row's next to fill).

    They count as written. ``node`` owns ``source``; its whole path was last used now (None where
    another request's row owns it: a fork).
    """

    request: int
    node: int | None
    source: int
    target: int
    tokens: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TokensWritten(Event):
    """The KV of the row's next ``count`` tokens now exists."""

    request: int
    count: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeStored(Event):
    """Private → tree: a new leaf ``node`` under ``parent`` owns ``blocks``, which stay in the row.

    Storing and extending are uses of the whole path (in ``hash`` of the new node).

    ``len(tokens)`` is a whole number of blocks, or, for a *tail*, less than one block.
    ``request`` is None where a node was put in without a request (tests, traces).
    """

    node: int
    parent: int
    namespace: str
    tokens: Int32Array
    blocks: Int32Array
    request: int | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeExtended(Event):
    """Private → tree: leaf ``node`` grew at its end by ``tokens`` in ``blocks``."""

    node: int
    tokens: Int32Array
    blocks: Int32Array
    request: int | None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeSplit(Event):
    """``node`` was cut after ``at`` tokens (whole blocks).

    The new node ``upper`` takes the first ``at`` tokens and ``node``'s place under its parent, with
    the same locks, pins and priority; ``node`` keeps its id, the rest, its children, and is now
    ``upper``'s child.
    """

    node: int
    upper: int
    at: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PathLocked(Event):
    """Lock count +1 on ``node`` and every node above it (root excepted): they can't be evicted.

    Locking and unlocking are uses: every node on the path was last used now. In ``hash`` this goes for
    ``nodes``, of which ``node`` is the last, and for no others.
    """

    node: int
    request: int | None
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PathUnlocked(Event):
    """Lock count -1 on ``node`` and every node above it (root excepted), or on ``nodes``, as in locking."""

    node: int
    request: int | None
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PathUsed(Event):
    """The path to ``node`` was last used now, without a request; ``hit`` counts one hit for each node."""

    node: int
    hit: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ChildrenMoved(Event):
    """``hash`` only: all that hung under ``node`` hangs under ``heir``, and a lookup finds ``heir`` now.

    ``heir`` is a sibling with the same tokens; ``node`` is evicted right after.
    """

    node: int
    heir: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RowRepointed(Event):
    """From logical index ``logical`` the row now names the tree's blocks ``new`` instead of ``old``.

    The contents are equal; ``old`` are the row's own duplicates and are freed right after.
    """

    request: int
    logical: int
    old: Int32Array
    new: Int32Array


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeEvicted(Event):
    """Tree → free: leaf ``node`` left the tree and its ``blocks`` are free.

    ``reason``: ``room`` (blocks were asked for), ``superseded`` (a tail whose tokens are now also
    in a fuller block; in ``hash`` an unused block whose tokens were just stored once more). It was
    taken as number ``rank`` of this eviction (1 = first), as the first in the strategy's order over
    ``leaves`` evictable leaves (0: they were not counted); ``age`` is the clock ticks since it was
    last used, ``request`` who asked for room.
    """

    node: int
    tokens: int
    blocks: Int32Array
    reason: str
    strategy: str
    rank: int
    age: int
    request: int | None
    leaves: int = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeTrimmed(Event):
    """Tree → free: the last ``tokens`` tokens (in ``blocks``) of leaf ``node`` left; the node stays."""

    node: int
    tokens: int
    blocks: Int32Array
    reason: str
    strategy: str
    rank: int
    age: int
    request: int | None
    leaves: int = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodePinned(Event):
    """A person pinned (or unpinned) ``node``: pinned nodes are evicted last."""

    node: int
    pinned: bool


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BlocksFreed(Event):
    """Private → free. ``blocks`` leave the request's row (unless it was repointed before).

    ``reason``: ``finished``, ``aborted``, ``preempted``, ``duplicate``.
    """

    request: int
    blocks: Int32Array
    reason: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PromptAccounted(Event):
    """Where each prompt token came from (see ``kvcache/accounting.py``).

    The seven reasons and ``hit`` and ``copied`` sum to ``prompt_tokens``, always. ``evicted_seq`` and
    ``evicted_by`` tell when the first of the ``evicted`` tokens went and which request asked for the
    room; ``diverged_at`` is the position of the first token that differs from what the session sent.
    """

    request: int
    prompt_tokens: int
    hit: int
    copied: int
    first_seen: int
    evicted: int
    diverged: int
    rounding: int
    last_token: int
    other_namespace: int
    bypassed: int = 0
    evicted_seq: int | None = None
    evicted_by: int | None = None
    diverged_at: int | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RequestClosed(Event):
    """The row is gone (its private blocks were freed or stored before). ``reason`` as in BlocksFreed."""

    request: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CacheCleared(Event):
    """Every node left the tree and every block is free."""


E = TypeVar("E", bound=Event)
Sink = Callable[[Event], object]


class EventLog:
    """The logical clock and the one way out for records.

    ``sink`` is called with each record as it happens; without one, records are not even built
    (the core's own benchmarks run so), but the clock ticks all the same.
    """

    __slots__ = ("_sink", "clock")

    def __init__(self, sink: Sink | None = None) -> None:
        self._sink = sink
        self.clock = 0

    @property
    def listening(self) -> bool:
        """Whether anybody hears of what is emitted."""
        return self._sink is not None

    def tick(self) -> None:
        """As ``emit``, where nobody listens and a record would be costly to prepare."""
        self.clock += 1

    def emit(self, kind: type[Event], /, **values: Any) -> None:
        """Tick, and hand ``kind(seq=…, **values)`` to the sink."""
        self.clock += 1
        if self._sink is not None:
            self._sink(kind(seq=self.clock, **values))
