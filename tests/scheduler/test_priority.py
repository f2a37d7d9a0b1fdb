"""A request's priority: who goes first, who gives way, what stays in the cache; and nobody starves."""

from __future__ import annotations

import pytest

from chatkv.kvcache.kinds import make_cache
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.scheduler.names import POLICIES
from chatkv.scheduler.request import Request, State
from chatkv.scheduler.scheduler import Scheduler
from tests.kvcache.trees import ids
from tests.scheduler.lives import admitted, finish_step, run_all


def asks(id: int, tokens: range, priority: int = 0, max_tokens: int = 1) -> Request:
    return Request(id, f"s{id}", ids(*tokens), max_tokens=max_tokens, priority=priority)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cache", ["radix", "hash", "none"])
def test_a_larger_priority_goes_first_whatever_the_policy(policy: str, cache: str) -> None:
    scheduler = Scheduler(make_cache(cache, 64, 4), policy=policy, max_running=1, max_overtaken=32)
    for id, priority in ((1, 0), (2, -3), (3, 7), (4, 7), (5, 0)):
        scheduler.add(asks(id, range(100 * id, 100 * id + 10), priority))
    order = [admitted(scheduler) for _ in range(5)]
    assert order == [[3], [4], [1], [5], [2]]


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_is_overtaken_more_often_than_was_said_by_larger_priorities(policy: str) -> None:
    scheduler = Scheduler(make_cache("radix", 64, 4), policy=policy, max_running=1, max_overtaken=5)
    low = asks(1, range(1000, 1020), -1000)
    scheduler.add(low)
    for id in range(2, 40):
        scheduler.add(asks(id, range(100, 110), 1000))
        finish_step(scheduler, scheduler.plan())
        if low.state is State.FINISHED:
            break
    assert low.state is State.FINISHED
    assert low.overtaken == 5


def test_the_lowest_priority_gives_way_and_comes_back() -> None:
    scheduler = Scheduler(make_cache("radix", 8, 4), max_overtaken=32)
    first, second = asks(1, range(100, 112), 0, 12), asks(2, range(200, 212), 5, 12)
    scheduler.add(first)
    scheduler.add(second)
    run_all(scheduler)
    assert (first.preemptions > 0, second.preemptions) == (True, 0)
    assert (first.output_tokens, second.output_tokens) == (12, 12)


def test_who_is_due_gives_way_to_no_later_one() -> None:
    scheduler = Scheduler(make_cache("radix", 8, 4), max_overtaken=1)
    low = asks(1, range(100, 112), 0, 12)
    low.overtaken = 1
    scheduler.add(low)
    scheduler.add(asks(2, range(200, 212), 5, 12))
    run_all(scheduler)
    assert low.preemptions == 0


def test_lpm_holds_nobody_back_for_the_prefix_of_a_lower_priority() -> None:
    scheduler = Scheduler(make_cache("radix", 64, 4), policy="lpm", max_running=1)
    scheduler.add(asks(1, range(100, 150), 0))
    scheduler.add(asks(2, range(100, 150), 1))
    assert [admitted(scheduler) for _ in range(2)] == [[2], [1]]


def test_a_fork_does_not_pass_a_larger_priority() -> None:
    scheduler = Scheduler(make_cache("radix", 64, 4), max_running=4, max_batch_tokens=8)
    parent = asks(1, range(100, 108), 0, 9)
    scheduler.add(parent)
    finish_step(scheduler, scheduler.plan())
    scheduler.add(asks(2, range(200, 240), 1))
    assert scheduler.fork(parent, asks(3, range(100, 108), 0, 9)) is None
    assert scheduler.fork(parent, asks(4, range(100, 108), 1, 9)) is not None


def stored(priority: int, first: int, cache: RadixCache, request: int) -> None:
    tokens = ids(*range(first, first + 8))
    opened = cache.open(request, tokens, priority=priority)
    assert opened is not None
    assert cache.grow(request, 8)
    cache.commit(request, tokens[opened.cached :])
    cache.close(request, "finished")
    cache.check_integrity()


def test_what_a_larger_priority_stored_is_evicted_later() -> None:
    cache = RadixCache(6, 4, eviction="priority", strict=True)
    stored(5, 100, cache, 1)
    stored(-2, 200, cache, 2)
    stored(0, 300, cache, 3)
    stored(0, 400, cache, 4)  # for which the lowest has to go
    assert [cache.peek(ids(*range(x, x + 9))) for x in (100, 200, 300)] == [8, 0, 8]
    stored(0, 500, cache, 5)
    assert [cache.peek(ids(*range(x, x + 9))) for x in (100, 300, 400)] == [8, 0, 8]


def test_r18_a_path_takes_the_largest_priority_of_those_who_use_it() -> None:
    cache = RadixCache(16, 4, strict=True)
    stored(-1, 100, cache, 1)
    (node,) = cache.tree.walk()
    assert node.priority == -1
    tokens = ids(*range(100, 104), 7, 7, 7, 7)
    opened = cache.open(2, tokens, priority=3)
    assert opened is not None
    assert opened.cached == 4
    assert cache.grow(2, 8)
    cache.commit(2, tokens[4:])
    cache.close(2, "finished")
    cache.check_integrity()
    found = {tuple(n.tokens.tolist())[-1]: n.priority for n in cache.tree.walk()}
    assert found == {103: 3, 107: -1, 7: 3}


@pytest.mark.parametrize(("unit", "held"), [(1, 0), (512, 1)])
def test_lpm_s_threshold_is_in_tokens_whatever_an_id_stands_for(unit: int, held: int) -> None:
    scheduler = Scheduler(make_cache("radix", 64, 1), policy="lpm", max_running=4)
    for id in (1, 2):
        prompt = ids(1, 2, 3, 10 * id)
        scheduler.add(Request(id, "", prompt, max_tokens=1, unit=unit))
    # Three ids in common are 3 tokens, not worth a pass of waiting, or 1,536.
    assert len(admitted(scheduler)) == 2 - held
