"""Many requests through scheduler and cache with a tiny pool: memory flat, nothing left behind."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterator

import pytest

from chatkv.kvcache.events import Event, EventLog
from chatkv.kvcache.kinds import make_cache
from chatkv.scheduler.names import POLICIES
from chatkv.scheduler.request import Request, State
from chatkv.scheduler.scheduler import Scheduler
from tests.scheduler.lives import asking, finish_step

CACHES = ["radix", "hash", "none"]
LEAK = 96 << 10
"""Bytes that the second half of a run may leave: 5,000 small objects, one a request, would be more."""


def random_request(id: int, rng: random.Random) -> Request:
    family = rng.randrange(6)
    shared = range(1000 * family, 1000 * family + rng.choice((0, 9, 40, 60)))
    own = [rng.randrange(4) for _ in range(rng.randrange(1, 20))]
    return Request(
        id,
        f"s{family}",
        asking(id, shared, own).tokens.copy(),
        max_tokens=rng.randrange(1, 16),
        namespace=rng.choice(("", "", "", "a")),
    )


def long_run(policy: str, cache: str, requests: int, seed: int) -> int:
    """Serve ``requests`` of them, some stopped on the way.

    How many bytes the second half left; 0 where nobody traces memory.
    """
    rng = random.Random(seed)
    heard = 0

    def hear(event: Event) -> None:
        nonlocal heard
        heard += 1

    kv = make_cache(cache, 48, 4, log=EventLog(hear))
    scheduler = Scheduler(
        kv,
        policy=policy,
        max_overtaken=8,
        admission=rng.choice(("prompt", "ratio")),
        max_batch_tokens=48,
        max_running=8,
    )
    id = over = most_overtaken = 0
    start: int | None = None
    live: dict[int, Request] = {}
    steps = 0
    while id < requests or live:
        if id >= requests // 2 and start is None:
            gc.collect()
            start = tracemalloc.get_traced_memory()[0]
        while id < requests and len(live) < 24:
            id += 1
            live[id] = random_request(id, rng)
            assert scheduler.add(live[id]) is None
        if rng.random() < 0.02 and live:
            scheduler.finish(live[rng.choice(list(live))], "aborted")
        plan = scheduler.plan()
        assert plan.work or plan.exhausted or not scheduler.has_work
        finish_step(scheduler, plan, check=steps % 64 == 0)
        steps += 1
        for done in [r for r in live.values() if r.state is State.FINISHED]:
            del live[done.id]
            over += 1
            most_overtaken = max(most_overtaken, done.overtaken)
        assert steps < 40 * requests + 1000
    gc.collect()
    assert start is not None
    left = tracemalloc.get_traced_memory()[0] - start
    assert over == requests
    assert most_overtaken <= 8
    assert heard == kv.log.clock
    kv.check_integrity()
    assert (kv.protected, len(kv.rows), len(scheduler.waiting), scheduler.running) == (0, 0, 0, [])
    assert kv.clear()
    assert kv.free == kv.num_blocks
    return left


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_ends_with_nobody_left(policy: str, cache: str) -> None:
    long_run(policy, cache, 60, seed=1)


@pytest.mark.usefixtures("traced")
def test_memory_is_flat() -> None:
    assert long_run("lpm", "radix", 500, seed=1) < LEAK


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("policy", POLICIES)
def test_ten_thousand_requests_leave_nothing(policy: str, cache: str) -> None:
    assert long_run(policy, cache, 10_000, seed=2) < LEAK
