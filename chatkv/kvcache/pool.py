"""The block pool: which physical blocks are free, and how many rows name each (PagedAttention).

    free ──take──▶ named by a row (refs ≥ 1) ──drop──▶ refs 0 ──▶ free
                        │                                  └──▶ stays, if the cache keeps it
                        └─keep─▶ cached (a prefix cache owns it as well) ─forget─▶ free

A block is free exactly when no row names it and no prefix cache keeps it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from chatkv.kvcache.errors import IntegrityError, ReleaseError
from chatkv.kvcache.events import Int32Array

Int64Array = npt.NDArray[np.int64]


class FreeList(Protocol):
    """The free blocks, in the order in which they are taken; blocks come and go as int32 arrays."""

    def __len__(self) -> int: ...

    def take(self, n: int) -> Int32Array:
        """Remove the first ``n``; there are as many."""

    def give(self, blocks: Int32Array) -> None:
        """``blocks`` were named by a row and never cached."""

    def give_evicted(self, blocks: Int32Array) -> None:
        """``blocks`` were cached until now."""

    def array(self) -> Int32Array:
        """All of them, next to be taken first (a copy)."""


class FreeRing:
    """First in, first out: blocks are reused as late as possible, so that a picture of the pool stays
    readable. Taking or returning ``n`` blocks is O(n) in numpy.
    """

    __slots__ = ("_head", "_ring", "_size")

    def __init__(self, num_blocks: int) -> None:
        self._ring: Int32Array = np.arange(num_blocks, dtype=np.int32)
        self._head = 0
        self._size = num_blocks

    def __len__(self) -> int:
        return self._size

    def take(self, n: int) -> Int32Array:
        """Remove the first ``n``."""
        blocks = self._ring[self._index(0, n)]
        self._head = (self._head + n) % len(self._ring)
        self._size -= n
        return blocks

    def give(self, blocks: Int32Array) -> None:
        """Put ``blocks`` behind the others."""
        self._ring[self._index(self._size, len(blocks))] = blocks
        self._size += len(blocks)

    give_evicted = give

    def array(self) -> Int32Array:
        """All of them, next to be taken first (a copy)."""
        return self._ring[self._index(0, self._size)]

    def _index(self, start: int, n: int) -> Int64Array:
        return np.arange(self._head + start, self._head + start + n) % len(self._ring)


class BlockPool:
    """``num_blocks`` physical blocks, ids ``0 … num_blocks - 1``; all operations take int32 arrays.

    ``free`` (default: a ring) orders the free ones. Raises ValueError for a pool without blocks.
    """

    __slots__ = ("_free", "cached", "num_blocks", "refs")

    def __init__(self, num_blocks: int, free: FreeList | None = None) -> None:
        if num_blocks < 1:
            raise ValueError(f"num_blocks must be at least 1, got {num_blocks}")
        self.num_blocks = num_blocks
        self._free = FreeRing(num_blocks) if free is None else free
        self.refs = np.zeros(num_blocks, dtype=np.int32)
        """How many rows name each block."""
        self.cached = np.zeros(num_blocks, dtype=bool)
        """Which blocks a prefix cache keeps."""

    @property
    def num_free(self) -> int:
        """How many blocks no row names and no prefix cache keeps."""
        return len(self._free)

    def take(self, n: int) -> Int32Array:
        """Remove ``n`` blocks from the free ones and name each once. Raises ValueError when too few."""
        if n < 0 or n > self.num_free:
            raise ValueError(f"can't take {n} blocks: {self.num_free} of {self.num_blocks} are free")
        blocks = self._free.take(n)
        self.refs[blocks] = 1
        return blocks

    def share(self, blocks: Int32Array) -> None:
        """One more row names each of ``blocks``.

        Raises ReleaseError, changing nothing, where one of them is free, unknown or given twice.
        """
        self._check_held(blocks)
        self.refs[blocks] += 1

    def drop(self, blocks: Int32Array) -> None:
        """One row fewer names each of ``blocks``; those that nobody keeps become free.

        Raises ReleaseError, changing nothing, where a block is named by no row, unknown or given twice.
        """
        if len(blocks) == 0:
            return
        self._check_known(blocks)
        refs = self.refs[blocks]
        if (refs < 1).any():
            bad = blocks[refs < 1].tolist()
            raise ReleaseError(f"blocks {bad} are released more often than they were taken")
        self.refs[blocks] = refs - 1
        self._free.give(blocks[(refs == 1) & ~self.cached[blocks]])

    def keep(self, blocks: Int32Array) -> None:
        """A prefix cache keeps ``blocks`` from now on.

        Raises ReleaseError, changing nothing, where one of them is free, unknown or given twice.
        """
        self._check_held(blocks)
        self.cached[blocks] = True

    def forget(self, blocks: Int32Array) -> None:
        """The prefix cache lets go of ``blocks``; those that no row names become free.

        Raises ReleaseError, changing nothing, where a block was not kept, is unknown or given twice.
        """
        self._check_known(blocks)
        if not self.cached[blocks].all():
            bad = blocks[~self.cached[blocks]].tolist()
            raise ReleaseError(f"blocks {bad} are not in the prefix cache")
        self.cached[blocks] = False
        self._free.give_evicted(blocks[self.refs[blocks] == 0])

    def free_blocks(self) -> Int32Array:
        """The free blocks, next to be taken first (a copy)."""
        return self._free.array()

    def check(self) -> None:
        """Raise IntegrityError unless free ⇔ (named by no row and not cached)."""
        free = self.free_blocks()
        if len(np.unique(free)) != len(free):
            raise IntegrityError("a block is free twice")
        expected = np.flatnonzero((self.refs == 0) & ~self.cached)
        if not np.array_equal(np.sort(free), expected):
            raise IntegrityError(f"free blocks {sorted(free.tolist())} should be {expected.tolist()}")
        if (self.refs < 0).any():
            raise IntegrityError("a block has a negative reference count")

    def _check_known(self, blocks: Int32Array) -> None:
        # A negative id would quietly mean a block counted from the end, a repeated one be freed twice.
        if len(blocks) and (blocks.min() < 0 or blocks.max() >= self.num_blocks):
            raise ReleaseError(f"blocks {blocks.tolist()}: ids go from 0 to {self.num_blocks - 1}")
        if len(blocks) > 1 and len(np.unique(blocks)) != len(blocks):
            raise ReleaseError(f"blocks {blocks.tolist()}: a block is given twice")

    def _check_held(self, blocks: Int32Array) -> None:
        self._check_known(blocks)
        free = (self.refs[blocks] == 0) & ~self.cached[blocks]
        if free.any():
            raise ReleaseError(f"blocks {blocks[free].tolist()} are free: take them first")
