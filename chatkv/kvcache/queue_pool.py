"""The block pool in the order of vLLM's free queue."""

from __future__ import annotations

import numpy as np

from chatkv.kvcache.errors import IntegrityError
from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.free_queue import FreeQueue
from chatkv.kvcache.pool import BlockPool


class QueuePool(BlockPool):
    """A pool whose unused blocks are taken as vLLM takes them.

    vLLM keeps all unused blocks in one queue: those without a hash in front, put back at the front;
    behind them the cached ones, put back at the end. The two parts never mix, so here they are two
    queues: ``free`` blocks hold nothing, ``idle`` ones a cached prefix that no row names, next to be
    evicted first. A row's blocks come back last one first: the end of a prefix goes before its start.
    """

    __slots__ = ("idle",)

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks, FreeQueue(max(num_blocks, 0), full=True))
        self.idle = FreeQueue(num_blocks, full=False)

    def unused(self) -> Int32Array:
        """vLLM's queue: the free blocks, then the idle ones, int32."""
        return np.concatenate((self.free_blocks(), self.idle.array()))

    def share(self, blocks: Int32Array) -> None:
        """One more row names each of ``blocks``; idle ones leave the queue."""
        super().share(blocks)
        self.idle.remove_n(blocks[self.refs[blocks] == 1].tolist())

    def drop(self, blocks: Int32Array) -> None:
        """One row fewer names each of ``blocks``; those that no row names now join the queue, last first."""
        last_first = blocks[::-1]
        super().drop(last_first)
        self.idle.append_n(last_first[self.cached[last_first] & (self.refs[last_first] == 0)].tolist())

    def forget(self, blocks: Int32Array) -> None:
        """The prefix cache lets go of ``blocks``: idle ones become free."""
        super().forget(blocks)
        self.idle.remove_n(blocks[self.refs[blocks] == 0].tolist())

    def check(self) -> None:
        """Raise IntegrityError unless free ⇔ unnamed and not cached, idle ⇔ unnamed and cached."""
        super().check()
        idle = np.sort(self.idle.array())
        expected = np.flatnonzero((self.refs == 0) & self.cached)
        if not np.array_equal(idle, expected):
            raise IntegrityError(f"idle blocks {idle.tolist()} should be {expected.tolist()}")
