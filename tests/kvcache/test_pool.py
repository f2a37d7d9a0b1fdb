"""The block pool: order of the free blocks, counts, and every way to release too much."""

from __future__ import annotations

import random

import pytest

from chatkv.kvcache.errors import IntegrityError, ReleaseError
from chatkv.kvcache.pool import BlockPool
from tests.kvcache.trees import ids


def state(pool: BlockPool) -> tuple[list[int], list[int], list[bool]]:
    return pool.free_blocks().tolist(), pool.refs.tolist(), pool.cached.tolist()


def test_blocks_come_in_order_and_return_to_the_end() -> None:
    pool = BlockPool(5)
    first = pool.take(3)
    assert first.tolist() == [0, 1, 2]
    pool.drop(ids(2, 0))
    assert pool.free_blocks().tolist() == [3, 4, 2, 0]
    assert pool.take(4).tolist() == [3, 4, 2, 0]
    assert pool.num_free == 0
    assert pool.take(0).tolist() == []


def test_a_block_is_free_when_nobody_names_or_keeps_it() -> None:
    pool = BlockPool(3)
    block = pool.take(1)
    pool.share(block)
    pool.keep(block)
    for step, free in ((pool.drop, 2), (pool.drop, 2), (pool.forget, 3)):
        step(block)
        assert pool.num_free == free
        pool.check()


def test_forgotten_while_named_it_is_free_after_the_last_row() -> None:
    pool = BlockPool(3)
    block = pool.take(1)
    pool.keep(block)
    pool.forget(block)
    assert pool.num_free == 2
    pool.drop(block)
    assert pool.num_free == 3
    pool.check()


@pytest.mark.parametrize("num_blocks", [0, -1])
def test_a_pool_needs_a_block(num_blocks: int) -> None:
    with pytest.raises(ValueError, match=f"num_blocks must be at least 1, got {num_blocks}"):
        BlockPool(num_blocks)


@pytest.mark.parametrize("n", [-1, 3])
def test_no_more_than_there_are(n: int) -> None:
    pool = BlockPool(4)
    pool.take(2)
    before = state(pool)
    with pytest.raises(ValueError, match=f"can't take {n} blocks: 2 of 4 are free"):
        pool.take(n)
    assert state(pool) == before


@pytest.mark.parametrize(
    ("blocks", "fault"),
    [
        ([0, 3], r"blocks \[3\] are released more often"),
        ([1], r"blocks \[1\] are released more often"),
        ([0, 0], "given twice"),
        ([0, -4], "ids go from 0 to 3"),
        ([4], "ids go from 0 to 3"),
    ],
)
def test_releasing_too_much_is_refused_whole(blocks: list[int], fault: str) -> None:
    pool = BlockPool(4)
    pool.take(3)
    pool.drop(ids(1))
    before = state(pool)
    with pytest.raises(ReleaseError, match=fault):
        pool.drop(ids(*blocks))
    assert state(pool) == before
    pool.check()


@pytest.mark.parametrize(
    ("blocks", "fault"), [([0, 1], r"blocks \[1\] are not in the prefix"), ([0, 0], "twice"), ([9], "ids go")]
)
def test_forgetting_what_is_not_kept_is_refused_whole(blocks: list[int], fault: str) -> None:
    pool = BlockPool(4)
    pool.keep(pool.take(1))
    pool.take(1)
    before = state(pool)
    with pytest.raises(ReleaseError, match=fault):
        pool.forget(ids(*blocks))
    assert state(pool) == before


@pytest.mark.parametrize("name", ["share", "keep"])
@pytest.mark.parametrize(
    ("blocks", "fault"), [([0, 1], r"blocks \[1\] are free"), ([-1], "ids"), ([0, 0], "twice")]
)
def test_a_free_block_can_be_neither_shared_nor_kept(name: str, blocks: list[int], fault: str) -> None:
    pool = BlockPool(4)
    pool.take(1)
    before = state(pool)
    with pytest.raises(ReleaseError, match=fault):
        getattr(pool, name)(ids(*blocks))
    assert state(pool) == before


def test_counts_of_a_random_life_against_a_plain_model() -> None:
    rng = random.Random(3)
    pool = BlockPool(12)
    refs, kept, free = [0] * 12, [False] * 12, list(range(12))
    for _ in range(2000):
        block = rng.randrange(12)
        action = rng.choice(["take", "share", "drop", "keep", "forget"])
        if action == "take":
            n = rng.randrange(3)
            if n <= len(free):
                taken, free = free[:n], free[n:]
                assert pool.take(n).tolist() == taken
                for b in taken:
                    refs[b] = 1
        elif action in ("share", "keep") and block not in free:
            getattr(pool, action)(ids(block))
            refs[block] += action == "share"
            kept[block] = kept[block] or action == "keep"
        elif (action == "drop" and refs[block]) or (action == "forget" and kept[block]):
            getattr(pool, action)(ids(block))
            refs[block] -= action == "drop"
            kept[block] = kept[block] and action != "forget"
            if refs[block] == 0 and not kept[block]:
                free.append(block)
        assert state(pool) == (free, refs, kept)
        assert pool.num_free == len(free)
        pool.check()


@pytest.mark.parametrize("break_it", ["refs", "cached", "negative"])
def test_the_check_notices(break_it: str) -> None:
    pool = BlockPool(4)
    pool.take(2)
    if break_it == "cached":
        pool.cached[3] = True
    else:
        pool.refs[0] = 0 if break_it == "refs" else -1
    with pytest.raises(IntegrityError):
        pool.check()
