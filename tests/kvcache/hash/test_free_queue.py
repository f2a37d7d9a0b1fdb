"""B24: the free queue, and the pool in its order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chatkv.kvcache.errors import CacheError, IntegrityError
from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.free_queue import FreeQueue
from chatkv.kvcache.queue_pool import QueuePool

BLOCKS = 8


class QueueMachine(RuleBasedStateMachine):
    """Against a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = FreeQueue(BLOCKS, full=True)
        self.model = list(range(BLOCKS))

    @rule(data=st.data())
    def append_n(self, data: st.DataObject) -> None:
        blocks = self.absent(data)
        self.queue.append_n(blocks)
        self.model += blocks

    @rule(data=st.data())
    def prepend_n(self, data: st.DataObject) -> None:
        blocks = self.absent(data)
        self.queue.prepend_n(blocks)
        self.model = blocks + self.model

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.model))
        self.queue.remove(block)
        self.model.remove(block)
        with pytest.raises(CacheError, match=f"block {block} is not in the queue"):
            self.queue.remove(block)

    @rule(n=st.integers(0, BLOCKS + 1))
    def popleft_n(self, n: int) -> None:
        if n > len(self.model):
            with pytest.raises(CacheError, match="can't take"):
                self.queue.popleft_n(n)
        else:
            assert self.queue.popleft_n(n) == self.model[:n]
            del self.model[:n]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def put_twice(self, data: st.DataObject) -> None:
        block = data.draw(st.sampled_from(self.model))
        fresh = [b for b in range(BLOCKS) if b not in self.model]
        for put in (self.queue.append_n, self.queue.prepend_n):
            with pytest.raises(CacheError, match="already"):
                put([*fresh, block])

    @rule(data=st.data())
    def put_the_same_twice_at_once(self, data: st.DataObject) -> None:
        for block in self.absent(data)[:1]:
            with pytest.raises(CacheError, match="given twice"):
                self.queue.append_n([block, block])

    @invariant()
    def equal(self) -> None:
        assert list(self.queue) == self.queue.array().tolist() == self.model
        assert len(self.queue) == len(self.model)
        assert [block in self.queue for block in range(BLOCKS)] == [b in self.model for b in range(BLOCKS)]

    def absent(self, data: st.DataObject) -> list[int]:
        others = [block for block in range(BLOCKS) if block not in self.model]
        return data.draw(
            st.permutations(others).flatmap(lambda p: st.sampled_from([p[:i] for i in range(len(p) + 1)]))
        )


TestQueueAgainstAList = QueueMachine.TestCase
TestQueueAgainstAList.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_b24_the_cases_of_vllm() -> None:
    queue = FreeQueue(5, full=True)
    assert queue.popleft_n(0) == []
    assert queue.popleft() == 0
    queue.remove(2)
    assert (list(queue), len(queue)) == ([1, 3, 4], 3)
    with pytest.raises(CacheError, match="block 2 is not in the queue"):
        queue.remove(2)
    queue.append(2)
    queue.prepend_n([0])
    assert list(queue) == [0, 1, 3, 4, 2]
    assert queue.popleft_n(5) == [0, 1, 3, 4, 2]
    with pytest.raises(CacheError, match="can't take 1 blocks from a queue of 0"):
        queue.popleft()


@pytest.mark.parametrize("block", [-1, 5])
def test_blocks_that_do_not_exist_are_refused(block: int) -> None:
    queue = FreeQueue(5, full=False)
    with pytest.raises(CacheError, match="ids go from 0 to 4"):
        queue.append(block)
    with pytest.raises(CacheError, match="not in the queue"):
        queue.remove(block)
    assert list(queue) == []


def ids(*blocks: int) -> Int32Array:
    return np.array(blocks, dtype=np.int32)


def test_cached_blocks_wait_behind_the_free_ones_and_leave_when_shared() -> None:
    pool = QueuePool(6)
    taken = pool.take(4)
    pool.keep(taken[:3])
    pool.drop(taken)
    assert pool.unused().tolist() == [3, 4, 5, 2, 1, 0]
    pool.share(ids(1))
    assert pool.unused().tolist() == [3, 4, 5, 2, 0]
    pool.forget(ids(2, 0))
    pool.check()
    assert (pool.free_blocks().tolist(), list(pool.idle)) == ([3, 4, 5, 2, 0], [])
    pool.drop(ids(1))
    assert list(pool.idle) == [1]
    pool.check()


def test_the_pools_check_sees_an_idle_block_out_of_place() -> None:
    pool = QueuePool(3)
    taken = pool.take(2)
    pool.keep(taken)
    pool.drop(taken)
    pool.idle.remove(0)
    with pytest.raises(IntegrityError, match=r"idle blocks \[1\] should be \[0, 1\]"):
        pool.check()
