"""A queue of blocks from whose middle a block can be taken: vLLM's ``FreeKVCacheBlockQueue``.

A doubly linked list threaded through two int32 arrays, so that an entry costs 8 bytes and no object.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from chatkv.kvcache.errors import CacheError
from chatkv.kvcache.events import Int32Array

_OUT = -1


class FreeQueue:
    """Block ids out of ``0 … num_blocks - 1``, each at most once; every operation is O(1) a block [B24].

    Starts with all of them in order (``full``) or empty. Where an operation raises, nothing has changed:
    CacheError for taking what is not there or putting what already is.
    """

    __slots__ = ("_next", "_prev", "_size")

    def __init__(self, num_blocks: int, *, full: bool) -> None:
        # Index num_blocks is the ring's joint: behind the last entry and before the first.
        if full:
            self._next = array("i", [*range(1, num_blocks + 1), 0])
            self._prev = array("i", [num_blocks, *range(num_blocks)])
        else:
            self._next = array("i", [_OUT] * num_blocks + [num_blocks])
            self._prev = array("i", [_OUT] * num_blocks + [num_blocks])
        self._size = num_blocks if full else 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, block: int) -> bool:
        return 0 <= block < len(self._next) - 1 and self._next[block] != _OUT

    def __iter__(self) -> Iterator[int]:
        joint = len(self._next) - 1
        block = self._next[joint]
        while block != joint:
            yield block
            block = self._next[block]

    def popleft(self) -> int:
        """Take the first. Raises CacheError where there is none."""
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[int]:
        """Take the first ``n``, in order. Raises CacheError where there are fewer."""
        if not 0 <= n <= self._size:
            raise CacheError(f"can't take {n} blocks from a queue of {self._size}")
        following, joint = self._next, len(self._next) - 1
        out = []
        block = following[joint]
        for _ in range(n):
            out.append(block)
            after = following[block]
            following[block] = _OUT
            block = after
        following[joint] = block
        self._prev[block] = joint
        self._size -= n
        return out

    def remove(self, block: int) -> None:
        """Take ``block``, wherever it is. Raises CacheError where it is not there."""
        if block not in self:
            raise CacheError(f"block {block} is not in the queue")
        before, after = self._prev[block], self._next[block]
        self._next[before] = after
        self._prev[after] = before
        self._next[block] = _OUT
        self._size -= 1

    def remove_n(self, blocks: Sequence[int]) -> None:
        """Take ``blocks``, all of which are there and given once, wherever they are."""
        following, previous = self._next, self._prev
        for block in blocks:
            before, after = previous[block], following[block]
            following[before] = after
            previous[after] = before
            following[block] = _OUT
        self._size -= len(blocks)

    def append(self, block: int) -> None:
        """Put ``block`` at the end."""
        self.append_n((block,))

    def append_n(self, blocks: Sequence[int]) -> None:
        """Put ``blocks`` at the end, in their order. Raises CacheError for one that can't be put."""
        joint = len(self._next) - 1
        self._insert(blocks, self._prev[joint], joint)

    def prepend_n(self, blocks: Sequence[int]) -> None:
        """Put ``blocks`` at the front, in their order. Raises CacheError for one that can't be put."""
        joint = len(self._next) - 1
        self._insert(blocks, joint, self._next[joint])

    def _insert(self, blocks: Sequence[int], before: int, after: int) -> None:
        limit = len(self._next) - 1
        for block in blocks:
            if not 0 <= block < limit:
                raise CacheError(f"block {block}: ids go from 0 to {limit - 1}")
            if self._next[block] != _OUT:
                raise CacheError(f"block {block} is in the queue already")
        if len(blocks) > 1 and len(set(blocks)) != len(blocks):
            raise CacheError(f"blocks {list(blocks)}: a block is given twice")
        for block in blocks:
            self._next[before] = block
            self._prev[block] = before
            before = block
        self._next[before] = after
        self._prev[after] = before
        self._size += len(blocks)

    # --- as the pool's FreeList -------------------------------------------------------------------

    def take(self, n: int) -> Int32Array:
        """Take the first ``n``, int32 [n]."""
        return np.array(self.popleft_n(n), dtype=np.int32)

    def give(self, blocks: Int32Array) -> None:
        """Blocks without a hash go to the front [B3]."""
        self.prepend_n(blocks.tolist())

    def give_evicted(self, blocks: Int32Array) -> None:
        """Blocks that just lost their hash are the next after those that had none [B4]."""
        self.append_n(blocks.tolist())

    def array(self) -> Int32Array:
        """All of them, first to be taken first, int32."""
        return np.fromiter(self, dtype=np.int32, count=self._size)
