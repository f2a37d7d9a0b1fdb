"""Which place each physical block is in, and what it looks like; kept up to date block by block."""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from chatkv.insight.nodes import BlockState
from chatkv.kvcache.events import Int32Array

FREE = -1
PRIVATE = -2


class BlockMap:
    """``owner`` int64 ``[num_blocks]``: ``FREE``, ``PRIVATE`` or a node id; ``states``: uint8, same shape.

    Every method checks that the blocks are where it takes them from before it changes anything, and
    raises ValueError (IndexError for a block that does not exist) otherwise.
    """

    def __init__(self, num_blocks: int) -> None:
        self.owner: npt.NDArray[np.int64] = np.full(num_blocks, FREE, np.int64)
        self.states: npt.NDArray[np.uint8] = np.zeros(num_blocks, np.uint8)
        self.free = num_blocks
        self._evicted_epoch: npt.NDArray[np.int64] = np.zeros(num_blocks, np.int64)
        self._evicted: deque[tuple[int, Int32Array]] = deque()

    def allocate(self, blocks: Int32Array) -> None:
        """Free → private."""
        self._expect(blocks, FREE)
        self.owner[blocks] = PRIVATE
        self.states[blocks] = BlockState.NEW
        self.free -= len(blocks)

    def store(self, blocks: Int32Array, node: int) -> None:
        """Private → tree."""
        self._expect(blocks, PRIVATE)
        self.owner[blocks] = node

    def move(self, blocks: Int32Array, source: int, target: int) -> None:
        """From one node to another."""
        self._expect(blocks, source)
        self.owner[blocks] = target

    def paint(self, blocks: Int32Array, state: BlockState) -> None:
        """Change what blocks of the tree look like."""
        self.states[blocks] = state

    def release(self, blocks: Int32Array, owner: int, evicted_epoch: int | None = None) -> None:
        """``owner`` (``PRIVATE`` or a node) → free; with an epoch they look evicted until ``expire``."""
        self._expect(blocks, owner)
        self.owner[blocks] = FREE
        self.free += len(blocks)
        if evicted_epoch is None:
            self.states[blocks] = BlockState.FREE
        else:
            self.states[blocks] = BlockState.EVICTED
            self._evicted_epoch[blocks] = evicted_epoch
            self._evicted.append((evicted_epoch, blocks))

    def expire(self, epoch: int) -> None:
        """Blocks evicted in ``epoch`` or before look free from now on."""
        while self._evicted and self._evicted[0][0] <= epoch:
            _, blocks = self._evicted.popleft()
            stale = (self.states[blocks] == BlockState.EVICTED) & (self._evicted_epoch[blocks] <= epoch)
            self.states[blocks[stale]] = BlockState.FREE

    def fade(self, blocks: Int32Array) -> None:
        """Those of ``blocks`` that still look evicted look free from now on."""
        stale = self.states[blocks] == BlockState.EVICTED
        self.states[blocks[stale]] = BlockState.FREE

    def clear(self) -> None:
        """All blocks are free."""
        self.owner[:] = FREE
        self.states[:] = BlockState.FREE
        self.free = len(self.owner)
        self._evicted.clear()

    def copy(self) -> BlockMap:
        """An independent copy."""
        twin = BlockMap(0)
        twin.owner, twin.states, twin.free = self.owner.copy(), self.states.copy(), self.free
        twin._evicted_epoch, twin._evicted = self._evicted_epoch.copy(), self._evicted.copy()
        return twin

    def _expect(self, blocks: Int32Array, owner: int) -> None:
        if len(blocks) and int(blocks.min()) < 0:
            raise IndexError(f"block {int(blocks.min())} does not exist")
        wrong = self.owner[blocks] != owner
        if wrong.any():
            block = int(blocks[wrong][0])
            raise ValueError(f"block {block} belongs to {self.owner[block]}, not {owner}")
