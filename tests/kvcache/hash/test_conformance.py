"""The B cases (vLLM's block table and hash pool), Q1 and R21, each named after its case.

Block numbers are vLLM's (see ``lives``), and so are the numbers expected. B24 is in test_free_queue, B27 in
test_fork.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from chatkv.kvcache import block_hash as hashing
from chatkv.kvcache.block_hash import block_hash
from chatkv.kvcache.events import CacheCleared
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.wire import BlockRemoved, BlockStored, WireEncoder, WireEvent
from tests.kvcache.hash.lives import COMMON, Life, run

FIRST = [*COMMON, *run((3, 7))]
"""55 tokens: three full blocks and 7 more."""
SECOND = [*COMMON, *run((4, 5))]


def chain(tokens: list[int], namespace: str = "") -> list[bytes]:
    hashes: list[bytes] = []
    for at in range(0, len(tokens) - 15, 16):
        block = np.array(tokens[at : at + 16], dtype=np.int32)
        hashes.append(block_hash(hashes[-1] if hashes else None, block, namespace))
    return hashes


def test_b1_a_prompt_of_55_takes_three_hashed_blocks_and_one_without() -> None:
    life = Life(11)
    assert life.prefill(0, FIRST) == 0
    assert life.blocks(0) == [1, 2, 3, 4]
    assert [life.hash(b) for b in (1, 2, 3, 4)] == [*chain(COMMON), None]
    assert life.refs(1, 2, 3, 4) == [1, 1, 1, 1]


def test_b2_a_second_prompt_shares_the_full_blocks() -> None:
    life = Life(11)
    life.prefill(0, FIRST)
    assert life.prefill(1, SECOND) == 48
    assert life.blocks(1) == [1, 2, 3, 5]
    assert life.refs(1, 2, 3, 4, 5) == [2, 2, 2, 1, 1]
    assert life.num_unused == 5


def both_freed() -> Life:
    life = Life(11)
    life.prefill(0, FIRST)
    life.prefill(1, SECOND)
    life.close(0)
    life.close(1)
    return life


def test_b3_unhashed_blocks_go_to_the_front_hashed_ones_to_the_back_tail_first() -> None:
    life = both_freed()
    assert life.queue() == [5, 4, 6, 7, 8, 9, 10, 3, 2, 1]
    assert (life.cache.free, life.cache.evictable, life.cache.protected) == (7, 3, 0)


def test_b4_a_stranger_takes_the_blocks_in_the_queues_order_and_their_hashes_go() -> None:
    life = both_freed()
    assert life.allocate(2, run((9, 160))) == 0
    assert life.blocks(2) == [5, 4, 6, 7, 8, 9, 10, 3, 2, 1]
    assert [life.hash(b) for b in range(1, 11)] == [None] * 10
    assert len(life.cache.index) == 0


def test_b5_q1_the_last_block_of_a_cached_prompt_is_computed_again() -> None:
    life = Life(11)
    life.prefill(0, COMMON)
    assert life.cache.peek(COMMON) == 32
    assert life.prefill(1, COMMON) == 32
    assert life.blocks(1) == [1, 2, 4]
    assert life.cache.peek([*COMMON, 7]) == 48


def test_b6_two_that_compute_the_same_at_once_keep_their_own_blocks() -> None:
    life = Life(11)
    assert life.allocate(0, FIRST) == 0
    assert life.allocate(1, FIRST) == 0
    life.compute(0, FIRST)
    life.compute(1, FIRST)
    assert (life.blocks(0), life.blocks(1)) == ([1, 2, 3, 4], [5, 6, 7, 8])
    assert [life.hash(b) for b in (1, 2, 3)] == [life.hash(b) for b in (5, 6, 7)] == chain(COMMON)
    assert len(life.cache.index) == 3
    assert life.allocate(2, SECOND) == 48
    assert life.blocks(2) == [1, 2, 3, 9]
    life.close(2)
    life.close(0)
    assert life.allocate(3, SECOND) == 48
    assert life.blocks(3)[:3] == [1, 2, 3]


def test_b6_when_the_first_is_evicted_lookups_find_the_duplicate() -> None:
    life = Life(8)
    for request in (0, 1):
        assert life.allocate(request, COMMON) == 0
    for request in (0, 1):
        life.compute(request, COMMON)
    life.close(0)
    assert life.allocate(2, run((9, 48))) == 0  # takes 7, 3, 2: vLLM's block 1 is the last of the first's
    assert life.blocks(2) == [7, 3, 2]
    life.close(1)
    life.close(2, "aborted")
    assert life.allocate(3, [*COMMON, 1]) == 48
    assert life.blocks(3)[:3] == [1, 5, 6]


def test_b8_blocks_can_be_found_chunk_by_chunk_once_they_are_written() -> None:
    """vLLM lets them be found when they are scheduled; here the forward comes first."""
    life = Life(11)
    prompt = [*COMMON, 1]
    life.allocate(0, prompt)
    assert life.cache.peek(prompt) == 0
    life.compute(0, prompt[:20])
    assert life.cache.peek(prompt) == 16
    life.compute(0, prompt[20:])
    assert life.cache.peek(prompt) == 48


def test_b9_decoding_fills_the_last_block_then_takes_a_new_one() -> None:
    life = Life(11)
    life.prefill(0, FIRST)
    life.compute(0, run((5, 9)))
    assert life.blocks(0) == [1, 2, 3, 4]
    assert life.hash(4) is not None
    life.compute(0, [5])
    assert life.blocks(0) == [1, 2, 3, 4, 5]
    assert life.hash(5) is None


def test_b9_four_more_tokens_need_no_block_and_nineteen_more_need_one() -> None:
    life = Life(11)
    life.prefill(0, FIRST)
    life.compute(0, run((5, 4)))
    assert life.blocks(0) == [1, 2, 3, 4]
    assert life.hash(4) is None
    life.compute(0, run((6, 19)))
    assert life.blocks(0) == [1, 2, 3, 4, 5]
    assert life.hash(4) is not None
    assert life.hash(5) is None


def test_b10_without_room_nothing_changes() -> None:
    life = Life(5)
    life.prefill(0, COMMON)
    seen = len(life.events)
    assert life.allocate(1, [*COMMON, *run((7, 48))]) is None
    assert life.refs(1, 2, 3) == [1, 1, 1]
    assert life.num_unused == life.cache.free == 1
    assert len(life.events) == seen


def test_b11_hits_that_sit_in_the_queue_are_no_room() -> None:
    life = Life(11)
    life.prefill(0, COMMON)
    life.prefill(1, [*COMMON, *run((1, 48))])
    assert life.blocks(1) == [1, 2, 3, 4, 5, 6]
    life.close(1)
    life.allocate(2, run((9, 32)))
    assert life.num_unused == 5
    longer = [*COMMON, *run((1, 48)), *run((2, 48))]
    assert life.cache.peek(longer) == 96
    assert life.allocate(3, longer) is None
    assert life.refs(1, 2, 3, 4, 5, 6) == [1, 1, 1, 0, 0, 0]
    assert life.num_unused == 5
    assert life.cache.peek(longer) == 96


def test_b15_a_recycled_block_drops_its_hash_even_for_partial_content() -> None:
    life = Life(3)
    life.prefill(0, run((1, 32)))
    assert life.hash(1) is not None
    life.close(0)
    life.allocate(1, run((2, 31)))
    life.compute(1, run((2, 31)))
    assert life.blocks(1) == [2, 1]
    assert life.hash(1) is None  # 15 tokens
    assert life.hash(2) == chain(run((2, 16)))[0]


def test_b16_a_salt_is_in_the_first_hash_only_and_lookups_never_cross() -> None:
    life = Life(21)
    prompt = [*COMMON, 1]
    life.prefill(0, prompt, namespace="salt")
    assert [life.cache.peek(prompt, salt) for salt in ("salt", "other", "")] == [48, 0, 0]
    first = block_hash(None, np.arange(16, dtype=np.int32), "salt")
    assert first != block_hash(None, np.arange(16, dtype=np.int32))
    assert life.hash(1) == first
    assert life.hash(2) == block_hash(first, np.arange(16, 32, dtype=np.int32))
    assert life.prefill(1, prompt, namespace="other") == 0
    assert life.prefill(2, prompt, namespace="salt") == 48


def test_b17_equal_blocks_behind_each_other_have_different_hashes() -> None:
    life = Life(11)
    life.prefill(0, run((1, 48)))
    assert len({life.hash(b) for b in (1, 2, 3)}) == 3


def test_r21_the_second_of_two_equal_blocks_is_chained_on_the_first() -> None:
    life = Life(4, block_size=4)
    life.prefill(0, [1, 2, 3, 4, 1, 2, 3, 4])
    tokens = np.array([1, 2, 3, 4], dtype=np.int32)
    assert life.hash(1) == block_hash(None, tokens)
    assert life.hash(2) == block_hash(life.hash(1), tokens) != life.hash(1)


def test_b18_a_hash_is_the_same_in_every_process() -> None:
    program = (
        "import numpy as np; from chatkv.kvcache.block_hash import block_hash as h; "
        "a = np.arange(16, dtype=np.int32); print(h(h(None, a, 'salt'), a).hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    tokens = np.arange(16, dtype=np.int32)
    assert seen == {block_hash(block_hash(None, tokens, "salt"), tokens).hex()}


def test_b19_a_watermark_holds_back_who_waits_unless_nothing_runs() -> None:
    life = Life(11)
    life.allocate(0, run((1, 128)))
    headroom = life.cache.watermark(0.2)
    assert headroom == 2
    assert life.num_unused == 2
    assert life.allocate(1, [7], headroom=headroom) is None
    assert life.allocate(1, [7], headroom=0) == 0
    assert life.blocks(1) == [9]
    assert life.cache.grow(0, 144)  # who runs needs no headroom
    for bad in (-0.1, 1.0, 2.0):
        with pytest.raises(ValueError, match="watermark"):
            life.cache.watermark(bad)


def test_b20_reset_is_refused_while_any_block_is_held() -> None:
    life = Life(11)
    life.prefill(0, FIRST)
    seen = len(life.events)
    assert not life.cache.clear()
    assert len(life.events) == seen
    assert life.hash(1) is not None
    life.close(0)
    assert life.cache.clear()
    assert [life.hash(b) for b in range(1, 11)] == [None] * 10
    assert isinstance(life.events[-1], CacheCleared)
    assert life.cache.free == 10
    assert life.cache.peek(FIRST) == 0
    life.cache.check_integrity()


def on_the_wire(life: Life, since: int = 0) -> list[WireEvent]:
    """What the records so far mean on vLLM's wire; those of the first ``since`` records are left out."""
    encoder = WireEncoder(16)
    for event in life.events[:since]:
        encoder.feed(event)
    encoder.take()
    for event in life.events[since:]:
        encoder.feed(event)
    return encoder.take()


def test_b21_events_of_a_prompt_and_of_its_eviction() -> None:
    life = Life(4)
    life.prefill(0, COMMON)
    life.close(0)
    hashes = tuple(chain(COMMON))
    assert on_the_wire(life) == [BlockStored(hashes, None, tuple(COMMON), 16, "")]
    seen = len(life.events)
    life.prefill(1, run((9, 32)))
    removed, stored = on_the_wire(life, seen)
    assert removed == BlockRemoved((hashes[2], hashes[1]))
    assert isinstance(stored, BlockStored)
    assert (len(stored.block_hashes), stored.parent_block_hash) == (2, None)
    assert life.cache.peek([*COMMON, 1]) == 16


def test_b22_the_next_event_names_the_last_cached_block_as_parent() -> None:
    life = Life(11)
    life.prefill(0, COMMON)
    seen = len(life.events)
    life.prefill(1, [*COMMON, *run((5, 16))])
    (stored,) = on_the_wire(life, seen)
    assert isinstance(stored, BlockStored)
    assert stored.parent_block_hash == chain(COMMON)[-1]


def test_b23_usage_counts_blocks_in_use_and_no_cached_ones() -> None:
    life = Life(11)
    assert life.cache.usage == 0.0
    life.prefill(0, run((1, 80)))
    assert life.cache.usage == 0.5
    life.close(0)
    assert life.cache.usage == 0.0
    assert life.cache.evictable == 5


def test_b25_with_caching_off_the_same_prompt_never_hits() -> None:
    cache = NoneCache(4, 4)
    prompt = list(range(10))
    for request in (0, 1):
        opened = cache.open(request, prompt)
        assert opened is not None
        assert opened.cached == 0
        assert cache.grow(request, 10)
        assert len(cache.row(request).blocks) == 3
        cache.commit(request, prompt)
        cache.close(request, "finished")
    assert cache.open(2, list(range(16))) is not None
    assert cache.grow(2, 16)
    assert len(cache.row(2).blocks) == 4
    assert cache.open(3, [1]) is None


def test_b26_a_request_that_may_not_read_the_cache_still_stores() -> None:
    life = Life(21)
    life.prefill(0, FIRST)
    assert life.prefill(1, FIRST, reuse=False) == 0
    assert life.blocks(1) == [5, 6, 7, 8]
    assert [life.hash(b) for b in (5, 6, 7)] == [life.hash(b) for b in (1, 2, 3)]
    assert life.prefill(2, SECOND) == 48
    assert life.blocks(2)[:3] == [1, 2, 3]


def test_prompts_whose_hashes_collide_never_share_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "chained_hash", lambda parent, tokens, namespace: b"same")
    life = Life(31)
    prompts = [
        ([*run((1, 16)), *run((3, 16)), 0], ""),
        ([*run((2, 16)), *run((3, 16)), 0], ""),  # the second block has the first's tokens and hash
        ([*run((1, 16)), *run((3, 16)), 0], "salt"),
    ]
    for request, (prompt, namespace) in enumerate(prompts):
        assert life.prefill(request, prompt, namespace=namespace) == 0
    assert len(life.cache.index) == 1
    for request, (prompt, namespace) in enumerate(prompts):
        assert life.prefill(request + 3, prompt, namespace=namespace) == 32
        assert life.blocks(request + 3)[:2] == life.blocks(request)[:2]
    for request in (1, 4, 0, 3, 2, 5):
        life.close(request)
    life.prefill(9, run((7, 30 * 16)))
    assert [life.cache.peek(prompt, namespace) for prompt, namespace in prompts] == [0, 0, 0]


def test_an_unused_block_goes_when_its_tokens_are_stored_once_more() -> None:
    life = Life(11)
    life.prefill(0, COMMON)
    life.close(0)
    assert life.prefill(1, COMMON) == 32
    assert life.blocks(1) == [1, 2, 4]
    assert life.hash(3) is None
    assert (life.cache.free, life.cache.evictable, life.cache.protected) == (7, 0, 3)
    life.close(1)
    assert life.prefill(2, [*COMMON, 1]) == 48
    assert life.blocks(2) == [1, 2, 4, 5]


def test_a_preempted_row_frees_what_has_no_hash_and_keeps_the_rest() -> None:
    life = Life(11)
    life.prefill(0, FIRST)
    life.close(0, "preempted")
    assert (life.cache.free, life.cache.evictable) == (7, 3)
    assert life.prefill(0, [*FIRST, 9], resumed=True) == 48


@pytest.mark.parametrize(
    "options", [{"eviction": "lfu"}, {"grain": "page"}, {"block_size": 0}, {"num_blocks": 0}]
)
def test_a_bad_option_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"lfu|page|at least 1"):
        HashCache(**{"num_blocks": 4, "block_size": 4, **options})  # type: ignore[arg-type]
