"""S5: nobody is overtaken more often than was said, whoever keeps coming."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatkv.kvcache.events import Event, EventLog
from chatkv.kvcache.kinds import make_cache
from chatkv.scheduler import events as ev
from chatkv.scheduler.names import POLICIES
from chatkv.scheduler.request import Request, State
from chatkv.scheduler.scheduler import Scheduler
from tests.scheduler.lives import asking, finish_step, request, run_all, warm

HOT = range(100, 140)


def hot(id: int) -> Request:
    return asking(id, HOT, [id % 50], max_tokens=1)


def endless(policy: str, bound: int, cache: str = "radix", steps: int = 300) -> tuple[Request, Scheduler]:
    """One cold request in a stream of hot ones that never lets the queue run dry; until it ran."""
    scheduler = Scheduler(
        make_cache(cache, 64, 4), policy=policy, max_overtaken=bound, max_running=2, max_batch_tokens=64
    )
    warm(scheduler.cache, HOT, 0)
    for id in (1, 2, 3):
        scheduler.add(hot(id))
    cold = request(4, 60, first=1000, max_tokens=1)
    scheduler.add(cold)
    for id in (5, 6, 7):
        scheduler.add(hot(id))
    for id in range(8, 8 + 2 * steps, 2):
        finish_step(scheduler, scheduler.plan())
        if cold.state is State.FINISHED:
            break
        scheduler.add(hot(id))
        scheduler.add(hot(id + 1))
    return cold, scheduler


@pytest.mark.parametrize("policy", ["lpm", "dfs-weight", "shortest-prefill-first"])
def test_without_aging_a_cold_request_starves(policy: str) -> None:
    cold, scheduler = endless(policy, 0)
    assert cold.state is State.WAITING
    assert cold.overtaken > 250
    assert len(scheduler.waiting) < 20, "the hot ones are served as they come"


@pytest.mark.parametrize("bound", [1, 7, 64])
@pytest.mark.parametrize("policy", POLICIES)
def test_s5_with_aging_it_runs_after_that_many(policy: str, bound: int) -> None:
    cold, _ = endless(policy, bound)
    assert cold.state is State.FINISHED
    assert cold.overtaken <= bound
    if policy in ("lpm", "shortest-prefill-first"):
        assert cold.overtaken == bound, "the policy alone would never have run it"


@pytest.mark.parametrize("cache", ["hash", "none"])
@pytest.mark.parametrize("policy", POLICIES)
def test_s5_over_the_other_caches(policy: str, cache: str) -> None:
    cold, _ = endless(policy, 5, cache)
    assert cold.state is State.FINISHED
    assert cold.overtaken <= 5


def test_whoever_is_due_and_does_not_fit_is_not_passed() -> None:
    """The room that the others leave is kept for it, until it is enough."""
    scheduler = Scheduler(make_cache("radix", 24, 4), policy="lpm", max_overtaken=2)
    scheduler.add(asking(1, HOT, [1], max_tokens=12))
    finish_step(scheduler, scheduler.plan())
    big = request(2, 80, first=1000, max_tokens=1)  # 20 of 24 blocks
    scheduler.add(big)
    for id in range(3, 100):
        scheduler.add(asking(id, HOT, [id], max_tokens=3))
        finish_step(scheduler, scheduler.plan())
        if big.state is State.FINISHED:
            break
    assert big.state is State.FINISHED
    assert big.overtaken == 2
    run_all(scheduler)


def test_fcfs_overtakes_nobody() -> None:
    cold, scheduler = endless("fcfs", 0)
    assert (cold.state, cold.overtaken) == (State.FINISHED, 0)
    assert all(r.overtaken == 0 for r in scheduler.waiting)


def test_a_preempted_request_keeps_its_count_and_comes_back() -> None:
    scheduler = Scheduler(
        make_cache("radix", 26, 4), policy="lpm", max_overtaken=3, max_running=4, max_batch_tokens=64
    )
    cold = request(5, 30, first=1000, max_tokens=40)
    scheduler.add(request(1, 30, first=3000, max_tokens=60))
    finish_step(scheduler, scheduler.plan())
    scheduler.add(cold)
    id = 10
    while cold.state is not State.FINISHED:
        scheduler.add(asking(id, HOT[:20], [id % 50], max_tokens=2))
        finish_step(scheduler, scheduler.plan())
        id += 1
        assert id < 400
    assert cold.preemptions > 0
    assert cold.overtaken <= 3
    assert cold.output_tokens == 40


class Watch:
    """Counts overtaking from the records alone, as somebody outside would."""

    def __init__(self) -> None:
        self.waiting: set[int] = set()
        self.count: Counter[int] = Counter()

    def __call__(self, event: Event) -> None:
        if isinstance(event, ev.RequestQueued | ev.RequestPreempted):
            self.waiting.add(event.request)
        elif isinstance(event, ev.RequestAdmitted):
            self.waiting.remove(event.request)
            self.count.update(id for id in self.waiting if id < event.request)
            assert event.overtaken == self.count[event.request]


prompts = st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(1, 30), st.integers(1, 12))


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(POLICIES),
    st.sampled_from(["radix", "hash", "none"]),
    st.sampled_from(["prompt", "ratio"]),
    st.integers(1, 6),
    st.lists(st.tuples(prompts, st.integers(0, 3), st.booleans()), min_size=2, max_size=40),
)
def test_s5_the_bound_holds_whatever_comes(
    policy: str,
    cache: str,
    admission: str,
    bound: int,
    arrivals: list[tuple[tuple[int, int, int, int], int, bool]],
) -> None:
    watch = Watch()
    scheduler = Scheduler(
        make_cache(cache, 24, 4, log=EventLog(watch)),
        policy=policy,
        max_overtaken=bound,
        admission=admission,
        max_batch_tokens=24,
        max_running=4,
    )
    requests = []
    for id, ((shared, family, own, answer), steps, cancel) in enumerate(arrivals, start=1):
        family_tokens = range(1000 * family, 1000 * family + shared)
        r = asking(id, family_tokens, range(5000 + 7 * id, 5000 + 7 * id + own), max_tokens=answer)
        requests.append(r)
        scheduler.add(r)
        for _ in range(steps):
            finish_step(scheduler, scheduler.plan())
        if cancel:
            victim = requests[(7 * id) % len(requests)]
            watch.waiting.discard(victim.id)
            scheduler.finish(victim, "aborted")
    run_all(scheduler, 5000)
    assert max(watch.count.values(), default=0) <= bound
    assert all(r.state is State.FINISHED for r in requests)
    assert all(r.overtaken == watch.count[r.id] for r in requests)
    assert scheduler.cache.protected == 0


def test_further_answers_to_a_prompt_overtake_too_and_wait_when_someone_is_due() -> None:
    watch = Watch()
    cache = make_cache("radix", 40, 4, log=EventLog(watch))
    scheduler = Scheduler(cache, policy="lpm", max_overtaken=2, max_batch_tokens=64, max_running=8)
    scheduler.add(request(1, 100, first=2000))
    finish_step(scheduler, scheduler.plan())
    finish_step(scheduler, scheduler.plan())
    cold, parent = request(2, 70, first=1000, max_tokens=1), asking(3, HOT, [1], max_tokens=3)
    warm(scheduler.cache, HOT, 0)
    for r in (cold, parent):
        scheduler.add(r)
    finish_step(scheduler, scheduler.plan())
    assert parent.state is State.RUNNING
    assert cold.overtaken == 1
    children = [asking(id, HOT, [1], max_tokens=3) for id in (4, 5)]
    assert scheduler.fork(parent, children[0]) is not None
    assert cold.overtaken == watch.count[2] == 2
    assert scheduler.fork(parent, children[1]) is None, "the cold one is due"
    assert children[1].state is State.WAITING
