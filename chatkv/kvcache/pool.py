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

IndexArray = npt.NDArray[np.intp]


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
    readable. Taking or returning ``n`` blocks copies one run of the ring, or two where it ends between.
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
        blocks = self._run(n)
        self._head = (self._head + n) % len(self._ring)
        self._size -= n
        return blocks

    def give(self, blocks: Int32Array) -> None:
        """Put ``blocks`` behind the others."""
        ring, n = self._ring, len(blocks)
        start = (self._head + self._size) % len(ring)
        first = len(ring) - start
        if n <= first:
            ring[start : start + n] = blocks
        else:
            ring[start:] = blocks[:first]
            ring[: n - first] = blocks[first:]
        self._size += n

    give_evicted = give

    def array(self) -> Int32Array:
        """All of them, next to be taken first (a copy)."""
        return self._run(self._size)

    def _run(self, n: int) -> Int32Array:
        ring, end = self._ring, self._head + n
        if end <= len(ring):
            return ring[self._head : end].copy()
        return np.concatenate((ring[self._head :], ring[: end - len(ring)]))


class BlockPool:
    """``num_blocks`` physical blocks, ids ``0 … num_blocks - 1``; all operations take int32 arrays.

    ``free`` (default: a ring) orders the free ones. Raises ValueError for a pool without blocks.
    """

    __slots__ = ("_free", "_marks", "_numbers", "cached", "num_blocks", "refs")

    def __init__(self, num_blocks: int, free: FreeList | None = None) -> None:
        if num_blocks < 1:
            raise ValueError(f"num_blocks must be at least 1, got {num_blocks}")
        self.num_blocks = num_blocks
        self._free = FreeRing(num_blocks) if free is None else free
        self.refs = np.zeros(num_blocks, dtype=np.int32)
        """How many rows name each block."""
        self.cached = np.zeros(num_blocks, dtype=bool)
        """Which blocks a prefix cache keeps."""
        self._numbers: Int32Array = np.arange(num_blocks, dtype=np.int32)
        self._marks = np.empty(num_blocks, dtype=np.int32)
        """Where ``_known`` leaves marks; what stands in it means nothing afterwards."""

    @property
    def num_free(self) -> int:
        """How many blocks no row names and no prefix cache keeps."""
        return len(self._free)

    def take(self, n: int) -> Int32Array:
        """Remove ``n`` blocks from the free ones and name each once. Raises ValueError when too few."""
        if n < 0 or n > self.num_free:
            raise ValueError(f"can't take {n} blocks: {self.num_free} of {self.num_blocks} are free")
        blocks = self._free.take(n)
        self.refs[blocks.astype(np.intp)] = 1
        return blocks

    def share(self, blocks: Int32Array) -> None:
        """One more row names each of ``blocks``.

        Raises ReleaseError, changing nothing, where one of them is free, unknown or given twice.
        """
        at, refs = self._held(blocks)
        refs += 1
        self.refs[at] = refs

    def drop(self, blocks: Int32Array) -> None:
        """One row fewer names each of ``blocks``; those that nobody keeps become free.

        Raises ReleaseError, changing nothing, where a block is named by no row, unknown or given twice.
        """
        if len(blocks) == 0:
            return
        at = self._known(blocks)
        refs = self.refs[at]
        if np.count_nonzero(refs) < len(at):
            bad = blocks[refs < 1].tolist()
            raise ReleaseError(f"blocks {bad} are released more often than they were taken")
        refs -= 1
        self.refs[at] = refs
        if np.count_nonzero(refs) < len(at):
            self._free.give(blocks[(refs == 0) & ~self.cached[at]])

    def keep(self, blocks: Int32Array) -> None:
        """A prefix cache keeps ``blocks`` from now on.

        Raises ReleaseError, changing nothing, where one of them is free, unknown or given twice.
        """
        at, _ = self._held(blocks)
        self.cached[at] = True

    def forget(self, blocks: Int32Array) -> None:
        """The prefix cache lets go of ``blocks``; those that no row names become free.

        Raises ReleaseError, changing nothing, where a block was not kept, is unknown or given twice.
        """
        at = self._known(blocks)
        kept = self.cached[at]
        if np.count_nonzero(kept) < len(at):
            raise ReleaseError(f"blocks {blocks[~kept].tolist()} are not in the prefix cache")
        self.cached[at] = False
        refs = self.refs[at]
        self._free.give_evicted(blocks[refs == 0] if np.count_nonzero(refs) else blocks)

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

    def _known(self, blocks: Int32Array) -> IndexArray:
        """``blocks`` as an index (of its own type numpy takes a third of the time); ReleaseError."""
        n = len(blocks)
        # A negative id would quietly mean a block counted from the end: unsigned it is out of range.
        at = blocks.view(np.uint32).astype(np.intp)
        numbers, marks = self._numbers[:n], self._marks
        try:
            marks[at] = numbers if n <= self.num_blocks else 0
        except IndexError:
            ids = f"ids go from 0 to {self.num_blocks - 1}"
            raise ReleaseError(f"blocks {blocks.tolist()}: {ids}") from None
        # A repeated one would be freed twice. Of two marks on one block the second stays.
        if marks[at].tobytes() != numbers.tobytes():
            raise ReleaseError(f"blocks {blocks.tolist()}: a block is given twice")
        return at

    def _held(self, blocks: Int32Array) -> tuple[IndexArray, Int32Array]:
        """``_known``, and how many rows name each (a copy); ReleaseError where one of them is free."""
        at = self._known(blocks)
        refs = self.refs[at]
        if np.count_nonzero(refs) < len(at):
            free = (refs == 0) & ~self.cached[at]
            if free.any():
                raise ReleaseError(f"blocks {blocks[free].tolist()} are free: take them first")
        return at, refs
