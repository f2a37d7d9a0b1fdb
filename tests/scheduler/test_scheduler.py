"""Who computes what, step by step, over a cache without a model."""

from __future__ import annotations

import numpy as np
import pytest

from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.events import Event, EventLog
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.scheduler import events as ev
from chatkv.scheduler.plan import Plan
from chatkv.scheduler.request import Request, State
from chatkv.scheduler.scheduler import Scheduler
from tests.scheduler.lives import warm


def request(id: int, tokens: int, first: int = 0, max_tokens: int = 100) -> Request:
    return Request(id, f"s{id}", np.arange(first, first + tokens, dtype=np.int32), max_tokens=max_tokens)


def run(scheduler: Scheduler, plan: Plan) -> None:
    """What the engine does after the forward; sampled tokens are ids that no prompt uses."""
    for work in plan.work:
        scheduler.computed(work)
        if work.samples:
            work.request.push(10_000 + 1000 * work.request.id + work.request.output_tokens)
            if work.request.output_tokens >= work.request.max_tokens:
                scheduler.finish(work.request, "finished")
    for lone in plan.exhausted:
        scheduler.finish(lone, "aborted")
    scheduler.cache.check_integrity()


def lengths(plan: Plan) -> dict[int, int]:
    return {w.request.id: w.length for w in plan.work}


def test_s6_chunked_prefill_64_64_22() -> None:
    scheduler = Scheduler(RadixCache(32, 16, strict=True), max_batch_tokens=64)
    scheduler.add(request(1, 150))
    seen = []
    for _ in range(3):
        plan = scheduler.plan()
        (work,) = plan.work
        seen.append((work.length, work.samples))
        assert work.samples or (work.start + work.length) % 16 == 0
        run(scheduler, plan)
    assert seen == [(64, False), (64, False), (22, True)]
    assert lengths(scheduler.plan()) == {1: 1}


def test_s1_fcfs_keeps_the_order_of_arrival() -> None:
    scheduler = Scheduler(RadixCache(64, 16), max_batch_tokens=64)
    for id in (1, 2, 3):
        scheduler.add(request(id, 40, first=100 * id))
    assert list(lengths(scheduler.plan())) == [1, 2]
    assert [r.id for r in scheduler.waiting] == [3]


def test_s9_and_s10_a_prompt_that_does_not_fit_whole_waits_and_nobody_overtakes_it() -> None:
    scheduler = Scheduler(NoneCache(10, 16), max_batch_tokens=512)
    scheduler.add(request(1, 100))  # 7 blocks
    run(scheduler, scheduler.plan())
    scheduler.add(request(2, 80))  # 5 blocks: 3 are free
    scheduler.add(request(3, 10))  # would fit
    assert list(lengths(scheduler.plan())) == [1]
    assert [r.id for r in scheduler.waiting] == [2, 3]


def test_decoding_goes_on_while_another_prefills() -> None:
    scheduler = Scheduler(RadixCache(64, 16), max_batch_tokens=33)
    scheduler.add(request(1, 10))
    run(scheduler, scheduler.plan())
    scheduler.add(request(2, 100, first=500))
    plan = scheduler.plan()
    assert lengths(plan) == {1: 1, 2: 32}
    assert [w.samples for w in plan.work] == [True, False]
    run(scheduler, plan)


def test_the_last_to_arrive_gives_way_and_comes_back_with_its_tokens() -> None:
    events: list[Event] = []
    cache = RadixCache(8, 4, log=EventLog(events.append))
    scheduler = Scheduler(cache)
    first, second = request(1, 11, max_tokens=12), request(2, 11, first=500, max_tokens=12)
    scheduler.add(first)
    scheduler.add(second)
    for _ in range(200):
        if not scheduler.has_work:
            break
        run(scheduler, scheduler.plan())
    assert first.state is second.state is State.FINISHED
    assert first.preemptions == 0
    assert second.preemptions >= 1
    assert first.output_tokens == second.output_tokens == 12
    # What came back was matched again, and is not counted as reuse.
    assert second.cached == 0
    assert any(isinstance(e, ev.RequestPreempted) and e.request == 2 for e in events)
    assert cache.protected == 0


def test_a_lone_request_that_fills_the_pool_is_named() -> None:
    scheduler = Scheduler(RadixCache(3, 4))
    lone = request(1, 8, max_tokens=100)
    scheduler.add(lone)
    for _ in range(4):
        run(scheduler, scheduler.plan())
    assert lone.num_tokens == 12
    run(scheduler, scheduler.plan())  # writes token 12, samples token 13
    plan = scheduler.plan()
    assert plan.exhausted == [lone]
    assert plan.work == []
    run(scheduler, plan)
    assert lone.state is State.FINISHED


def test_a_prompt_larger_than_the_pool_is_refused_with_numbers() -> None:
    events: list[Event] = []
    scheduler = Scheduler(RadixCache(4, 16, log=EventLog(events.append)))
    reason = scheduler.add(request(1, 65))
    assert reason is not None
    assert "5 blocks" in reason
    assert "has 4" in reason
    assert not scheduler.has_work
    assert isinstance(events[-1], ev.RequestRefused)
    assert scheduler.add(request(2, 64)) is None


@pytest.mark.parametrize("moment", ["waiting", "mid-chunk", "decoding", "finished"])
def test_q6_cancel_in_every_state_gives_everything_back(moment: str) -> None:
    cache = RadixCache(32, 16)
    scheduler = Scheduler(cache, max_batch_tokens=32)
    victim = request(1, 100, max_tokens=3)
    scheduler.add(victim)
    for _ in range({"waiting": 0, "mid-chunk": 2, "decoding": 5, "finished": 10}[moment]):
        run(scheduler, scheduler.plan())
    scheduler.finish(victim, "aborted")
    scheduler.finish(victim, "aborted")
    cache.check_integrity()
    assert cache.protected == 0
    assert cache.evictable == {"waiting": 0, "mid-chunk": 4, "decoding": 7, "finished": 7}[moment]
    assert not scheduler.has_work


def test_own_prefix_is_locked_before_the_room_is_counted() -> None:
    """S11: 4 blocks are evictable, but they are the waiting request's own prefix."""
    cache = RadixCache(6, 4, strict=True)
    scheduler = Scheduler(cache)
    warm = request(1, 16, max_tokens=1)
    scheduler.add(warm)
    run(scheduler, scheduler.plan())
    assert (cache.free, cache.evictable) == (2, 4)
    holder = request(2, 4, first=900)
    scheduler.add(holder)
    run(scheduler, scheduler.plan())
    tight = Request(3, "s", np.concatenate((np.arange(16), [77] * 5)).astype(np.int32), max_tokens=1)
    scheduler.add(tight)  # 6 blocks, 4 of them cached; free 1: must wait, not crash
    plan = scheduler.plan()
    assert list(lengths(plan)) == [2]
    run(scheduler, plan)
    scheduler.finish(holder, "finished")
    for _ in range(20):
        run(scheduler, scheduler.plan())
    assert tight.state is State.FINISHED
    assert tight.cached == 16


@pytest.mark.parametrize("kind", [RadixCache, NoneCache])
@pytest.mark.parametrize("seed", range(4))
def test_many_requests_through_a_tiny_pool_all_finish(kind: type[KVCache], seed: int) -> None:
    rng = np.random.default_rng(seed)
    cache = kind(24, 4)
    scheduler = Scheduler(cache, max_batch_tokens=16, max_running=6)
    requests = []
    for id in range(1, 60):
        shared = np.arange(int(rng.integers(1, 20)))
        own = rng.integers(0, 3, int(rng.integers(1, 25)))
        r = Request(
            id, "s", np.concatenate((shared, own)).astype(np.int32), max_tokens=int(rng.integers(1, 30))
        )
        requests.append(r)
        scheduler.add(r)
    steps = 0
    while scheduler.has_work:
        plan = scheduler.plan()
        assert plan.work or plan.exhausted, "a step must always do something"
        assert sum(w.length for w in plan.work) <= 16
        run(scheduler, plan)
        steps += 1
        assert steps < 20_000
    assert all(r.state is State.FINISHED for r in requests)
    assert sum(r.output_tokens == r.max_tokens for r in requests) == len(requests)
    assert cache.protected == 0


def forked(cache: KVCache, answers: int) -> tuple[Scheduler, list[Request]]:
    """``answers`` to one prompt that fills the pool; each has its first token."""
    scheduler = Scheduler(cache)
    parent, *children = requests = [request(id, cache.num_blocks) for id in range(1, answers + 1)]
    assert scheduler.add(parent) is None
    (work,) = scheduler.plan().work
    scheduler.computed(work)
    for child in children:
        assert scheduler.fork(parent, child) == ()
    for r in requests:
        r.push(90 + r.id)
    return scheduler, requests


@pytest.mark.parametrize("answers", [2, 4])
@pytest.mark.parametrize("cache", [RadixCache, HashCache])
def test_who_outgrew_the_pool_by_sharing_ends_and_does_not_wait_for_ever(
    cache: type[KVCache], answers: int
) -> None:
    """Each answer has 9 tokens in a pool of 8: whoever gave way could never come back."""
    scheduler, requests = forked(cache(8, 1), answers)
    behind = request(9, 2, first=50, max_tokens=2)
    assert scheduler.add(behind) is None
    ended: list[int] = []
    for _ in range(20):
        plan = scheduler.plan()
        assert plan.work or plan.exhausted or not scheduler.has_work, "nobody goes on"
        ended += [r.id for r in plan.exhausted]
        run(scheduler, plan)
    assert sorted(ended) == [r.id for r in requests]
    assert (behind.state, behind.output_tokens) == (State.FINISHED, 2)
    assert scheduler.cache.protected == 0


def test_a_chunk_has_the_room_that_is_locked_for_no_use() -> None:
    """Else a prompt would give way although most of its chunk has a place."""
    cache = RadixCache(12, 4)
    first = request(2, 8)
    warm(cache, [*first.tokens, *range(12_000, 12_012)], 1)
    scheduler = Scheduler(cache, max_batch_tokens=21)
    scheduler.add(first)
    run(scheduler, scheduler.plan())
    scheduler.add(other := request(3, 36, first=500))
    run(scheduler, scheduler.plan())
    assert (cache.free, cache.evictable, cache.room, other.computed) == (1, 0, 4, 20)
    assert cache.open(9, [7]) is not None
    assert cache.grow(9, 1)
    plan = scheduler.plan()
    assert lengths(plan) == {2: 1, 3: 12}
    run(scheduler, plan)
    assert other.preemptions == 0
