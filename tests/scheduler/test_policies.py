"""The order of the queue by each policy, by the conformance cases S1, S2, S4 and R25."""

from __future__ import annotations

import numpy as np
import pytest

from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.kinds import make_cache
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.scheduler.names import POLICIES, policy_label
from chatkv.scheduler.policy import ORDERS
from chatkv.scheduler.request import Request
from chatkv.scheduler.scheduler import Scheduler
from chatkv.scheduler.waiting import WaitingQueue
from tests.scheduler.lives import admitted, asking, finish_step, request, run_all, warm


def ranked(
    policy: str, requests: list[Request], cache: KVCache, now: int = 0
) -> list[tuple[int, int | None, bool]]:
    return [(w.request.id, w.matched, w.held) for w in ORDERS[policy].rank(requests, cache, now)]


def order(policy: str, requests: list[Request], cache: KVCache, now: int = 0) -> list[int]:
    return [id for id, _, _ in ranked(policy, requests, cache, now)]


def test_the_names_are_those_of_the_policies() -> None:
    assert tuple(ORDERS) == POLICIES
    assert [policy_label(name, 8) for name in POLICIES] == [
        "FCFS",
        "LPM (aging 8)",
        "dfs-weight (aging 8)",
        "HRRN (aging 8)",
        "shortest-prefill-first (aging 8)",
    ]
    assert policy_label("lpm", 0) == "LPM (no aging)"


def test_s1_fcfs_keeps_arrival_and_lpm_sorts_by_match_stable_for_ties() -> None:
    cache = RadixCache(64, 1, strict=True)
    warm(cache, [1, 2, 3, 4, 5], 90)
    requests = [
        asking(1, [9, 9]),
        asking(2, [1, 2, 8]),
        asking(3, [1, 2, 3, 8]),
        asking(4, [1, 2, 7]),
        asking(5, [8, 8]),
    ]
    assert order("fcfs", requests, cache) == [1, 2, 3, 4, 5]
    assert ranked("lpm", requests, cache) == [
        (3, 3, False),
        (2, 2, False),
        (4, 2, False),
        (1, 0, False),
        (5, 0, False),
    ]


class CountingCache(RadixCache):
    looks = 0

    def peek(self, *args: object, **options: object) -> int:
        self.looks += 1
        return super().peek(*args, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["lpm", "dfs-weight"])
@pytest.mark.parametrize(("waiting", "first"), [(128, 128), (129, 1)])
def test_s2_above_128_waiting_it_is_fcfs_and_nothing_is_matched(
    policy: str, waiting: int, first: int
) -> None:
    cache = CountingCache(64, 4, strict=True)
    warm(cache, range(90_000, 90_020), 999)
    queue = WaitingQueue(policy)
    for id in range(1, waiting + 1):
        start = 90_000 if id == 128 else 10 * id
        queue.add(request(id, 12, first=start))
    queue.arrange(cache, 0)
    chosen = queue.next()
    assert chosen is not None
    assert chosen.id == first
    assert cache.looks == (128 if waiting == 128 else 0)
    assert queue.in_force == (policy if waiting == 128 else "fcfs")


def test_s2_the_others_go_by_whole_prompts_then() -> None:
    cache = CountingCache(64, 4)
    requests = [request(id, 200 - id, first=1000 * id) for id in range(1, 130)]
    assert order("shortest-prefill-first", requests, cache)[:2] == [129, 128]
    assert cache.looks == 0


def test_a_request_whose_beginning_is_about_to_be_computed_waits_one_pass_and_hits() -> None:
    scheduler = Scheduler(RadixCache(64, 4), policy="lpm")
    shared = range(100, 140)
    leader, follower = asking(1, shared, [1], max_tokens=2), asking(2, shared, [2], max_tokens=2)
    other = request(3, 20, first=500, max_tokens=2)
    for r in (leader, follower, other):
        scheduler.add(r)
    assert admitted(scheduler) == [1, 3], "there was room for all three"
    assert admitted(scheduler) == [2]
    assert (leader.cached, follower.cached) == (0, 40)
    # In order of arrival both compute it.
    scheduler = Scheduler(RadixCache(64, 4))
    again = [asking(1, shared, [1]), asking(2, shared, [2])]
    for r in again:
        scheduler.add(r)
    assert admitted(scheduler) == [1, 2]
    assert [r.cached for r in again] == [0, 0]


def held(cache: KVCache, requests: list[Request]) -> list[int]:
    return [id for id, _, waits in ranked("lpm", requests, cache) if waits]


@pytest.mark.parametrize(("cached", "waits"), [(0, True), (32, True), (33, False)])
def test_s4_who_has_more_than_32_in_the_cache_is_not_held(cached: int, waits: bool) -> None:
    cache = RadixCache(256, 1, strict=True)
    if cached:
        warm(cache, range(cached), 99)
    requests = [asking(1, range(100), [1]), asking(2, range(100), [2])]
    assert held(cache, requests) == ([2] if waits else [])


@pytest.mark.parametrize(("shared", "waits"), [(31, False), (32, True)])
def test_s4_at_least_32_tokens_must_be_shared(shared: int, waits: bool) -> None:
    requests = [asking(1, range(shared), range(200, 250)), asking(2, range(shared), range(300, 350))]
    assert held(RadixCache(64, 1), requests) == ([2] if waits else [])


def test_s4_a_block_must_be_shared_to_be_found() -> None:
    requests = [asking(1, range(50), [1] * 30), asking(2, range(50), [2] * 30)]
    assert held(RadixCache(8, 64), requests) == []
    assert held(RadixCache(8, 32), requests) == [2]


def test_nobody_is_held_for_what_can_not_be_shared() -> None:
    shared = range(50)
    assert held(make_cache("none", 64, 4), [asking(1, shared), asking(2, shared)]) == []
    cache = make_cache("hash", 64, 4)
    assert held(cache, [asking(1, shared, namespace="a"), asking(2, shared)]) == []
    assert held(cache, [asking(1, shared), asking(2, shared), asking(3, shared)]) == [2, 3]


def test_r25_dfs_weight_goes_into_the_heavier_subtree_first() -> None:
    cache = RadixCache(64, 1, strict=True)
    for at, tokens in enumerate(([1, 2], [1, 3], [9, 9])):
        warm(cache, tokens, 90 + at)
    # The last token is always computed: each prompt has one more than it matches.
    requests = [asking(0, [9, 9, 0]), asking(1, [1, 2, 0]), asking(2, [1, 3, 0]), asking(3, [1, 2, 0])]
    assert order("dfs-weight", requests, cache) == [1, 3, 2, 0]
    # Who matched nothing is last, and a node's own come after those below it.
    requests += [asking(4, [1, 0]), asking(5, [5, 5])]
    assert order("dfs-weight", [requests[5], *requests[:5]], cache) == [1, 3, 2, 4, 0, 5]


def test_dfs_weight_keeps_namespaces_apart_and_counts_whole_blocks() -> None:
    cache = make_cache("hash", 64, 4)
    warm(cache, range(8), 90)
    warm(cache, range(8), 91, namespace="a")
    requests = [
        asking(1, range(8), [0]),
        asking(2, range(8), [0], namespace="a"),
        asking(3, range(8), [1], namespace="a"),
        asking(4, range(3)),
    ]
    assert order("dfs-weight", requests, cache) == [2, 3, 1, 4]


def test_shortest_prefill_counts_what_is_to_be_computed() -> None:
    cache = RadixCache(64, 4)
    warm(cache, range(100), 90)
    requests = [request(1, 20, first=500), asking(2, range(100), [7, 7]), request(3, 20, first=700)]
    assert order("shortest-prefill-first", requests, cache) == [2, 1, 3]


def test_hrrn_weighs_waiting_against_work() -> None:
    cache = RadixCache(64, 4)
    long, short = request(1, 100, first=500), request(2, 10, first=700)
    long.arrived, short.arrived = 0, 400
    assert order("hrrn", [long, short], cache, now=410) == [1, 2]  # (410+100)/100 against (10+10)/10
    assert order("hrrn", [long, short], cache, now=500) == [2, 1]  # 6 against 11


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cache", ["radix", "hash", "none"])
def test_every_policy_serves_everyone_over_every_cache(policy: str, cache: str) -> None:
    scheduler = Scheduler(
        make_cache(cache, 40, 4), policy=policy, max_overtaken=4, max_batch_tokens=16, max_running=5
    )
    requests = [
        asking(id, range(10 * (id % 3), 10 * (id % 3) + 36), [id], max_tokens=1 + id % 7)
        for id in range(1, 40)
    ]
    for r in requests:
        scheduler.add(r)
    run_all(scheduler)
    assert [r.output_tokens for r in requests] == [r.max_tokens for r in requests]
    assert max(r.overtaken for r in requests) <= 4
    assert scheduler.cache.protected == 0


def test_fcfs_stops_at_the_first_that_does_not_fit_and_so_does_lpm() -> None:
    """S10: whose turn it is can't be passed, whatever would fit behind it."""
    for policy in ("fcfs", "lpm"):
        scheduler = Scheduler(RadixCache(10, 16), policy=policy)
        scheduler.add(request(1, 100))
        finish_step(scheduler, scheduler.plan())
        scheduler.add(request(2, 80, first=1000))
        scheduler.add(request(3, 10, first=2000))
        assert admitted(scheduler) == []
        assert [r.id for r in scheduler.waiting] == [2, 3]


def test_bad_options_are_refused() -> None:
    cache = RadixCache(8, 4)
    with pytest.raises(ValueError, match=r"'best'.*fcfs, lpm"):
        Scheduler(cache, policy="best")
    with pytest.raises(ValueError, match="at least 0, got -1"):
        Scheduler(cache, max_overtaken=-1)
    with pytest.raises(ValueError, match=r"'all'.*prompt, ratio"):
        Scheduler(cache, admission="all")
    with pytest.raises(ValueError, match="remove"):
        WaitingQueue().remove(request(1, 4))
    assert np.array_equal(request(1, 2).tokens, [0, 1])
