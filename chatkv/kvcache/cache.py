"""A KV cache as a request sees it: open, grow, commit, close. What is reused differs by subclass.

    scheduler ──open/grow/close──▶ KVCache ──take/drop──▶ BlockPool   (who names which block)
    engine ────commit────────────▶    │    ──lock/store─▶ RadixTree … (what can be found again)
                                      └──────emit──────▶ EventLog    (what people see)

Rules (conformance cases in brackets): a lookup covers ``prompt[:-1]`` at most [Q1]; a block becomes
findable only after its KV has been written; the KV of the last sampled token does not exist [Q2].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chatkv.kvcache import events as ev
from chatkv.kvcache.accounting import Ledger
from chatkv.kvcache.errors import CacheError, DuplicateRequestError, IntegrityError, UnknownRequestError
from chatkv.kvcache.events import EventLog, Int32Array
from chatkv.kvcache.pool import BlockPool
from chatkv.kvcache.results import Lookup
from chatkv.kvcache.table import Row


class Copy(NamedTuple):
    """The first ``tokens`` slots of ``source`` must be copied to ``target`` before the next forward."""

    source: int
    target: int
    tokens: int


class Opened(NamedTuple):
    """``cached`` prompt tokens need no prefill; ``copied`` of them hold once ``copies`` are carried out."""

    cached: int
    copied: int
    copies: tuple[Copy, ...]


REASONS = ("finished", "aborted", "preempted")
"""Why a row may end."""


def token_ids(values: npt.ArrayLike) -> Int32Array:
    """``values`` as int32 [n]. Raises ValueError unless they are flat whole numbers of 32 bits."""
    if isinstance(values, np.ndarray) and values.dtype == np.int32 and values.ndim == 1:
        return np.ascontiguousarray(values)
    array = np.asarray(values)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise ValueError(f"token ids must be a flat sequence of whole numbers, got {values!r:.60}")
    if array.dtype != np.int32 and len(array) and (array.min() < -(2**31) or array.max() >= 2**31):
        raise ValueError(f"token ids must fit in 32 bits, got {array.min()} to {array.max()}")
    return np.ascontiguousarray(array, dtype=np.int32)


def blocks_for(tokens: int, block_size: int) -> int:
    """How many blocks ``tokens`` tokens need."""
    return -(-tokens // block_size)


class KVCache(ABC):
    """Rows over one pool. Not thread-safe: one thread owns it.

    Raises ValueError for a pool or block size below 1.
    """

    kind: str

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        strict: bool = False,
        eviction: str = "lru",
        grain: str = "node",
        log: EventLog | None = None,
    ) -> None:
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1, got {block_size}")
        self.pool = self._new_pool(num_blocks)
        self.block_size = block_size
        self.strict = strict
        self.log = log or EventLog()
        self.rows: dict[int, Row] = {}
        self.evicted_blocks = 0
        """How many blocks had to leave the prefix cache for room, so far."""
        self._ledger = Ledger(block_size, num_blocks, self.log, self._known) if self.log.listening else None
        self.log.emit(
            ev.CacheCreated,
            num_blocks=num_blocks,
            block_size=block_size,
            cache=self.kind,
            eviction=eviction,
            grain=grain,
            strict=strict,
        )

    # --- counts -----------------------------------------------------------------------------------

    @property
    def num_blocks(self) -> int:
        """The size of the pool in blocks: always ``free + evictable + protected``."""
        return self.pool.num_blocks

    @property
    def free(self) -> int:
        """Blocks that hold nothing."""
        return self.pool.num_free

    @property
    @abstractmethod
    def evictable(self) -> int:
        """Blocks that hold a cached prefix nobody uses now."""

    @property
    def protected(self) -> int:
        """Blocks that requests lock: all that they use, and the rest of the node in which one ends."""
        return self.num_blocks - self.free - self.evictable

    @property
    def room(self) -> int:
        """Blocks that new tokens can have: those that are free, evictable, or locked for no use."""
        return self.free + self.evictable + self._loose()

    @property
    def usage(self) -> float:
        """The part of the pool that requests lock, 0…1; a cached prefix nobody uses is not in use [B23]."""
        return self.protected / self.num_blocks

    @property
    def unfilled(self) -> int:
        """Slots of open rows' blocks that hold no token: under one block a request between two steps
        (PagedAttention's bound on waste, arXiv 2309.06180).
        """
        size = self.block_size
        return sum(len(row.blocks) * size - len(row.tokens) for row in self.rows.values())

    def watermark(self, fraction: float) -> int:
        """``fraction`` of the pool in whole blocks: the ``headroom`` to ask for while others run [B19].

        Raises ValueError unless ``fraction`` is from 0 to below 1.
        """
        if not 0 <= fraction < 1:
            raise ValueError(f"a watermark is a part of the pool from 0 to below 1, got {fraction}")
        return int(fraction * self.num_blocks)

    def row(self, request: int) -> Row:
        """The row of ``request``. Raises UnknownRequestError."""
        try:
            return self.rows[request]
        except KeyError:
            raise UnknownRequestError(f"request {request} has no row in the block table") from None

    # --- the life of a request --------------------------------------------------------------------

    @abstractmethod
    def peek(
        self,
        prompt: npt.ArrayLike,
        namespace: str = "",
        session: str = "",
        lookup: Lookup | None = None,
    ) -> int:
        """How many tokens of ``prompt`` would be reused now; changes nothing, not even recency.

        Naming the ``session`` can only save work: its hashes may be known already. So can ``lookup``, the
        request's own: give it again whenever the same prompt is asked about, as it is or longer.
        """

    @abstractmethod
    def locate(self, tokens: npt.ArrayLike, namespace: str = "", session: str = "") -> tuple[int, Int32Array]:
        """How many leading ``tokens`` are cached, the last one counted too, and the blocks that hold them.

        For reading only: changes nothing, not even recency, and nothing keeps the blocks from eviction.
        """

    def open(
        self,
        request: int,
        prompt: npt.ArrayLike,
        *,
        session: str = "",
        namespace: str = "",
        resumed: bool = False,
        headroom: int = 0,
        reuse: bool = True,
        lookup: Lookup | None = None,
        priority: int = 0,
    ) -> Opened | None:
        """Give ``request`` a row that starts with its longest cached prefix, locked.

        Without ``reuse`` all of the prompt is computed, and stored as ever (for the prompt's own
        log-probabilities every position must run) [B26]. ``lookup`` is as in ``peek``: where
        nothing happened since, the prompt is not looked up again.

        What the request uses or stores has at least its ``priority``; eviction ``priority`` takes smaller
        ones first.

        None, with nothing changed, where the whole prompt (int32 [n], n ≥ 1) would not fit beside what
        others use, leaving ``headroom`` blocks [S9, S11, B10]. Raises DuplicateRequestError, and
        ValueError for an empty prompt or a negative ``headroom``.
        """
        if request in self.rows:
            raise DuplicateRequestError(f"request {request} already has a row in the block table")
        tokens = token_ids(prompt)
        if len(tokens) == 0:
            raise ValueError(f"request {request}: a prompt needs at least one token")
        if headroom < 0:
            raise ValueError(f"request {request}: headroom must be at least 0, got {headroom}")
        row = Row(request, session, namespace, len(tokens), reuse, priority)
        if lookup is None:
            lookup = Lookup()
        if not self._fits(row, tokens, headroom, lookup):
            return None
        watched = self._ledger is not None and row.reuse
        known = self._known_of(row, tokens, lookup) if watched else 0  # before anything changes
        self.log.emit(
            ev.RequestOpened,
            request=request,
            session=session,
            namespace=namespace,
            prompt_tokens=len(tokens),
            resumed=resumed,
        )
        self.rows[request] = row
        opened = self._reuse(row, tokens, lookup)
        lookup.found = None
        if self._ledger is not None:
            self._ledger.opened(row, tokens, opened.cached, opened.copied, None if resumed else known)
        return opened

    def grow(self, request: int, tokens: int) -> bool:
        """Make room in the row for ``tokens`` tokens in all, evicting where needed.

        False, with nothing changed, where even evicting everything idle would not do. Raises ValueError
        for a negative size.
        """
        row = self.row(request)
        if tokens < 0:
            raise ValueError(f"request {request}: can't grow to {tokens} tokens")
        need = blocks_for(tokens, self.block_size) - len(row.blocks)
        if need <= 0:
            return True
        if need > self.free + self.evictable:
            if need > self.room:
                return False
            self._tighten()
        if need > self.free:
            self._evict(need - self.free, request)
        blocks = self.pool.take(need)
        self.log.emit(ev.BlocksAllocated, request=request, logical=len(row.blocks), blocks=blocks)
        row.blocks.extend(blocks)
        return True

    def fork(self, parent: int, child: int) -> tuple[Copy, ...] | None:
        """Open ``child`` with all that ``parent`` has written, for another answer to its prompt [B27].

        Blocks that the prefix cache holds are shared. The others, at most the partly filled last one
        where prefixes are cached, are copied into blocks of the child's own: a block that two rows name
        is never written. None, with nothing changed, where there is no room for the copies. Raises
        UnknownRequestError and DuplicateRequestError.
        """
        row = self.row(parent)
        if child in self.rows:
            raise DuplicateRequestError(f"request {child} already has a row in the block table")
        size, written, shared = self.block_size, len(row.tokens), row.published
        filled = blocks_for(written, size)
        if filled - shared > self.room:
            return None
        twin = Row(child, row.session, row.namespace, row.prompt_tokens, row.reuse, row.priority)
        self.log.emit(
            ev.RequestOpened,
            request=child,
            session=row.session,
            namespace=row.namespace,
            prompt_tokens=row.prompt_tokens,
            resumed=False,
        )
        self.rows[child] = twin
        path = self._share(row, twin)
        if shared:
            blocks = row.blocks.array[:shared].copy()
            self.pool.share(blocks)
            twin.blocks.extend(blocks)
            twin.published = shared
            self.log.emit(ev.PrefixReused, request=child, path=path, blocks=blocks, tokens=shared * size)
        self.grow(child, written)
        twin.tokens.extend(row.tokens.array)
        copies = []
        for i in range(shared, filled):
            copy = Copy(int(row.blocks.array[i]), int(twin.blocks.array[i]), min(size, written - i * size))
            self.log.emit(ev.SlotsCopied, request=child, node=None, **copy._asdict())
            copies.append(copy)
        if self._ledger is not None:
            hit = min(shared * size, row.prompt_tokens)
            prompt = row.tokens.array[: row.prompt_tokens]
            copied = len(prompt) - hit
            whole = len(prompt) == row.prompt_tokens and row.reuse
            known = self._known(prompt, row.namespace, row.session) if whole else 0
            self._ledger.opened(
                twin, prompt, hit + copied, copied, known if len(prompt) == row.prompt_tokens else None
            )
        return tuple(copies)

    def commit(self, request: int, tokens: npt.ArrayLike) -> None:
        """The KV of the row's next ``tokens`` (int32 [n]) has been written; full blocks become findable.

        Raises CacheError where the row has no room for them.
        """
        row = self.row(request)
        new = token_ids(tokens)
        room = len(row.blocks) * self.block_size - len(row.tokens)
        if len(new) > room:
            raise CacheError(
                f"request {request}: {len(new)} tokens committed, but its row has room for {room}"
            )
        row.tokens.extend(new)
        self.log.emit(ev.TokensWritten, request=request, count=len(new))
        self._publish(row)
        if self._ledger is not None:
            self._ledger.published(row)

    def close(self, request: int, reason: str) -> None:
        """End the row: locks go, its own blocks are kept by the cache or freed.

        ``reason``: ``finished`` and ``aborted`` keep all written KV findable; ``preempted`` frees the
        row's own blocks at once, because the room is needed now [Q7]. Raises ValueError for another one.
        """
        row = self.row(request)
        if reason not in REASONS:
            raise ValueError(
                f"request {request}: unknown reason {reason!r}: choose one of {', '.join(REASONS)}"
            )
        if reason != "preempted":
            self._keep_tail(row)
        if self._ledger is not None:
            self._ledger.closed(row)
        own = row.blocks.array[row.published :].copy()
        del self.rows[request]
        self.pool.drop(row.blocks.array[: row.published])
        if len(own):
            self.pool.drop(own)
            self.log.emit(ev.BlocksFreed, request=request, blocks=own, reason=reason)
        self._unlock(row)
        self.log.emit(ev.RequestClosed, request=request, reason=reason)

    @abstractmethod
    def clear(self) -> bool:
        """Forget everything cached. False, with nothing changed, while any row is open [B20]."""

    def pin(self, node_id: int, pinned: bool = True) -> None:
        """Evict a node after all others, or no longer. Raises CacheError where it can't be done."""
        raise CacheError(
            f"can't pin node {node_id}: a {self.kind} cache has no tree to pin in; start with --cache radix"
        )

    # --- integrity --------------------------------------------------------------------------------

    def check_integrity(self) -> None:
        """Raise IntegrityError unless each block is in one place and all counts agree.

        Nobody ever writes into a block that another row names or that the prefix cache holds: from the
        first slot that is still to be written, all blocks of a row are its own alone.
        """
        self.pool.check()
        refs = np.zeros(self.num_blocks, dtype=np.int64)
        for row in self.rows.values():
            blocks = row.blocks.array
            if len(np.unique(blocks)) != len(blocks):
                raise IntegrityError(f"request {row.request} names a block twice: {blocks.tolist()}")
            np.add.at(refs, blocks, 1)
            if len(row.tokens) > len(blocks) * self.block_size:
                raise IntegrityError(f"request {row.request} has more tokens than its blocks hold")
            own = blocks[row.published :]
            if self.pool.cached[own].any():
                raise IntegrityError(f"request {row.request} calls cached blocks its own: {own.tolist()}")
            writable = blocks[len(row.tokens) // self.block_size :]
            if self.pool.cached[writable].any() or (self.pool.refs[writable] > 1).any():
                raise IntegrityError(f"request {row.request} would write into blocks that are not its alone")
        if not np.array_equal(refs, self.pool.refs):
            raise IntegrityError("reference counts differ from the rows that name each block")
        if min(self.free, self.evictable, self.protected) < 0:
            raise IntegrityError(f"free {self.free}, evictable {self.evictable}, protected {self.protected}")
        idle = int(np.count_nonzero(self.pool.cached & (self.pool.refs == 0)))
        if self.free + idle + int(np.count_nonzero(refs)) != self.num_blocks:
            raise IntegrityError("free + cached + used is not the size of the pool")
        self._check()

    # --- what a subclass decides ------------------------------------------------------------------

    def _new_pool(self, num_blocks: int) -> BlockPool:
        return BlockPool(num_blocks)

    def _forget(self, blocks: Int32Array, request: int | None, *, lost: bool) -> None:
        """``blocks`` left the prefix cache; ``lost``: for room, else their tokens are held elsewhere too."""
        self.evicted_blocks += len(blocks) if lost else 0
        if self._ledger is not None:
            self._ledger.forgot(blocks, request, lost=lost)
        self.pool.forget(blocks)

    @abstractmethod
    def _known(self, prompt: Int32Array, namespace: str, session: str) -> int:
        """How many leading tokens of ``prompt`` are cached, whatever rules keep them from being reused."""

    @abstractmethod
    def _known_of(self, row: Row, prompt: Int32Array, lookup: Lookup) -> int:
        """The same, from what ``_fits`` has found."""

    @abstractmethod
    def _fits(self, row: Row, prompt: Int32Array, headroom: int, lookup: Lookup) -> bool:
        """Whether there is room for the prompt; what ``lookup`` found is current afterwards."""

    @abstractmethod
    def _reuse(self, row: Row, prompt: Int32Array, lookup: Lookup) -> Opened: ...

    @abstractmethod
    def _share(self, parent: Row, child: Row) -> tuple[int, ...]:
        """Lock for ``child`` what ``parent`` has published, one use each; the ids of those nodes."""

    @abstractmethod
    def _evict(self, num_blocks: int, request: int | None) -> None: ...

    def _loose(self) -> int:
        """How many more blocks ``_tighten`` would make evictable."""
        return 0

    def _tighten(self) -> None:
        """Lock no more than what rows use."""
        raise AssertionError("nothing is locked for no use, so nobody asks for it")

    @abstractmethod
    def _publish(self, row: Row) -> None:
        """Make the row's full blocks findable."""

    @abstractmethod
    def _keep_tail(self, row: Row) -> None:
        """The row ends: its partly filled block is to be found, too."""

    @abstractmethod
    def _unlock(self, row: Row) -> None: ...

    @abstractmethod
    def _check(self) -> None: ...
