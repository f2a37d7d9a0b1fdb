"""The Q cases: a request's life over the tree in strict mode, where only whole blocks are shared."""

from __future__ import annotations

import numpy as np
import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import BlocksFreed, NodeStored
from tests.kvcache.lives import Watched

PROMPT = list(range(100, 200))


@pytest.mark.parametrize("page", [1, 2, 4, 16])
@pytest.mark.parametrize("n", [1, 4, 16, 17, 48])
def test_q1_at_least_one_token_is_computed(page: int, n: int) -> None:
    life = Watched(200, page, strict=True)
    life.whole(1, PROMPT[:n])
    assert life.cache.peek(PROMPT[:n]) == (n - 1) // page * page
    assert life.whole(2, PROMPT[:n]) == (n - 1) // page * page


@pytest.mark.parametrize("page", [1, 16])
def test_q2_a_next_turn_hits_the_answer_too(page: int) -> None:
    answer = list(range(500, 550))
    life = Watched(400, page, strict=True)
    life.whole(1, PROMPT, answer[:-1])
    assert life.cache.tree.total_tokens == 149 // page * page  # the last token's KV does not exist
    assert life.whole(2, [*PROMPT, *answer, 7, 7, 7]) == 149 // page * page


def test_q2_a_chunk_is_findable_at_its_end_and_the_row_names_the_tree() -> None:
    life = Watched(40, 4, strict=True)
    life.open(1, PROMPT[:20])
    life.compute(1, PROMPT[:8])
    assert life.cache.peek(PROMPT[:20]) == 8
    life.open(2, PROMPT[:20])
    life.compute(2, PROMPT[8:20])  # overtakes: 8 tokens reused, 12 stored
    life.compute(1, PROMPT[8:20])  # finds them there
    first, second = life.cache.row(1).blocks.array, life.cache.row(2).blocks.array
    assert first.tolist() == second.tolist()
    assert life.cache.tree.total_tokens == 20
    assert life.counts == (35, 0, 5)


def test_q4_the_tail_page_stays_in_the_row_until_the_end() -> None:
    life = Watched(10, 4, strict=True)
    life.open(1, PROMPT[:10])
    life.compute(1, PROMPT[:10])
    row = life.cache.row(1)
    assert life.cache.tree.total_tokens == 8
    assert (len(row.blocks), row.published, row.filled(4)) == (3, 2, [4, 4, 2])
    assert life.counts == (7, 0, 3)
    tail = int(row.blocks.array[2])
    life.close(1)
    assert life.counts == (8, 2, 0)
    (freed,) = life.of(BlocksFreed)
    assert isinstance(freed, BlocksFreed)
    assert freed.blocks.tolist() == [tail]


def test_q5_every_block_comes_back() -> None:
    life = Watched(30, 4, strict=True)
    for request, (start, stop) in enumerate([(0, 10), (0, 18), (5, 30), (0, 18)]):
        life.whole(request, PROMPT[start:stop], [1, 2, 3, 4, 5])
    assert life.cache.free < 30
    assert life.cache.open(9, range(1000, 1120)) is not None
    assert life.cache.grow(9, 120)  # needs the whole pool, so everything is evicted
    assert life.counts == (0, 0, 30)
    assert life.nodes == []
    life.close(9, "aborted")
    assert life.counts == (30, 0, 0)


def test_q5_only_what_the_tree_did_not_take_is_freed() -> None:
    life = Watched(30, 4, strict=True)
    life.whole(1, PROMPT[:9])  # the tree holds 8
    life.open(2, PROMPT[:15])  # 8 reused
    life.compute(2, PROMPT[8:15])  # 4 stored, 3 in the row's own block
    row = life.cache.row(2)
    own = row.blocks.array[row.published :].tolist()
    life.events.clear()
    life.close(2)
    assert [event.blocks.tolist() for event in life.of(BlocksFreed)] == [own]  # type: ignore[attr-defined]
    assert life.counts == (27, 3, 0)


@pytest.mark.parametrize("reason", ["aborted", "preempted", "finished"])
@pytest.mark.parametrize("computed", [0, 6, 8, 10, 13])
def test_q6_ended_at_any_time_locks_and_slots_return(computed: int, reason: str) -> None:
    life = Watched(20, 4, strict=True)
    life.whole(1, PROMPT[:4])
    life.open(2, PROMPT[:10])
    todo = ([*PROMPT[:10], *range(7)])[4 : 4 + computed]
    life.compute(2, todo[:5])
    for token in todo[5:]:
        life.compute(2, [token])
    assert life.cache.protected > 0
    life.close(2, reason)
    assert life.cache.protected == 0
    assert all(locks == 0 for _, locks in life.nodes)
    assert life.cache.tree.total_tokens == (4 + computed) // 4 * 4  # whole blocks, written, are valid
    assert life.cache.free == 20 - (4 + computed) // 4


def test_q6_a_waiting_request_has_nothing_to_give_back() -> None:
    life = Watched(4, 4, strict=True)
    life.open(1, PROMPT[:16])
    life.compute(1, PROMPT[:16])
    seen = len(life.events)
    assert life.cache.open(2, PROMPT[:17]) is None  # does not fit: it waits, without a row
    assert len(life.events) == seen
    assert list(life.cache.rows) == [1]
    assert life.counts == (0, 0, 4)


def test_q7_a_preempted_request_matches_again_and_that_is_no_reuse() -> None:
    life = Watched(20, 4, strict=True)
    life.open(1, PROMPT[:10])
    life.compute(1, PROMPT[:10])
    for token in (1, 2, 3, 4, 5):
        life.compute(1, [token])  # 15 written: 3 blocks of the tree, 3 tokens in the row's own
    stored = len(life.of(NodeStored))
    life.close(1, "preempted")
    assert len(life.of(NodeStored)) == stored  # nothing is inserted
    assert life.counts == (17, 3, 0)
    opened = life.open(1, [*PROMPT[:10], 1, 2, 3, 4, 5, 6], resumed=True)
    assert opened.cached == 12
    mirror = Mirror()
    mirror.apply_all(life.events)
    assert mirror.faults == []
    assert mirror.requests[1].cached == 0


def test_q8_blocks_after_eviction() -> None:
    life = Watched(4, 4, strict=True)
    life.whole(1, PROMPT[:8])
    life.open(2, range(8))
    life.compute(2, range(8))
    assert life.counts == (0, 2, 2)  # all taken
    life.open(3, range(50, 55))
    assert life.cache.grow(3, 1)  # one token: one whole block
    first = life.cache.row(3).blocks.array.tolist()
    assert life.cache.grow(3, 4)  # the same block still
    assert life.cache.row(3).blocks.array.tolist() == first
    assert life.cache.grow(3, 5)
    second = life.cache.row(3).blocks.array.tolist()[1:]
    assert len({*first, *second, *life.cache.row(2).blocks.array.tolist()}) == 4  # no overlap
    assert not life.cache.grow(3, 9)
    assert life.counts == (0, 0, 4)


def test_q8_counts_of_a_pool_of_eight() -> None:
    life = Watched(8, 4, strict=True)
    life.whole(1, PROMPT[:8])
    assert life.counts == (6, 2, 0)
    assert life.open(2, [1, 2, 3]).cached == 0
    assert life.cache.grow(2, 7)
    assert len(life.cache.row(2).blocks) == 2  # exactly
    held = np.concatenate([node.blocks for node in life.cache.tree.walk()])
    assert not set(held.tolist()) & set(life.cache.row(2).blocks.array.tolist())
