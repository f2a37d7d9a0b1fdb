"""Who is let in: the room that is kept for those who run (S7, S9, S11), and how it comes back (Q6)."""

from __future__ import annotations

import numpy as np
import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import EventLog
from chatkv.kvcache.kinds import make_cache
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.scheduler.admission import Admission, NewTokenRatio, answer_reserve
from chatkv.scheduler.names import POLICIES
from chatkv.scheduler.request import State
from chatkv.scheduler.scheduler import Scheduler
from tests.scheduler.lives import admitted, asking, finish_step, request, run_all, warm


def test_s7_the_ratio_falls_from_07_to_0098_in_600_steps() -> None:
    ratio = NewTokenRatio()
    assert ratio.value == 0.7
    for _ in range(300):
        ratio.step()
    assert ratio.value == pytest.approx((0.7 + 0.098) / 2)
    for _ in range(300):
        ratio.step()
    assert ratio.value == pytest.approx(0.098)
    ratio.step()
    assert ratio.value == 0.098


def test_s7_after_a_preemption_it_is_computed_from_how_far_they_came() -> None:
    running = [request(1, 10, max_tokens=100), request(2, 10, max_tokens=200)]
    for r, tokens in zip(running, (5, 12), strict=True):
        for token in range(tokens):
            r.push(token)
    ratio = NewTokenRatio()
    ratio.preempted(running)
    assert ratio.value == (5 + 12 + 20 * 2) / (300 + 1)
    ratio.preempted([request(3, 10, max_tokens=4)])
    assert ratio.value == 1.0, "never more than all of it"
    ratio.reset()
    assert ratio.value == 0.7


def test_s7_an_answer_reserves_at_most_4096() -> None:
    r = request(1, 10, max_tokens=10_000)
    assert answer_reserve(r) == 4096
    r.max_tokens = 100
    r.push(5)
    assert answer_reserve(r) == 99


@pytest.mark.parametrize(("pool", "fits"), [(131, True), (130, False)])
def test_s7_a_newcomer_reserves_prompt_answer_and_a_page_beside_a_part_of_the_others(
    pool: int, fits: bool
) -> None:
    scheduler = Scheduler(RadixCache(pool, 1, strict=True), admission="ratio")
    scheduler.add(request(1, 10, max_tokens=100))
    finish_step(scheduler, scheduler.plan())  # 10 in its row, 1 sampled, 99 may come
    # 70 for the first (1 + 0.699 * 99), 20 + 30 + 1 for the second
    scheduler.add(request(2, 20, first=500, max_tokens=30))
    assert admitted(scheduler) == ([2] if fits else [])


def test_s7_those_admitted_in_the_same_step_reserve_all_of_their_answers() -> None:
    admission = Admission("ratio")
    cache = RadixCache(400, 1, strict=True)
    first, second = request(1, 10, max_tokens=100), request(2, 20, first=500, max_tokens=30)
    cache.open(1, first.tokens)
    assert admission.headroom(cache, second, [first], {1}) == 30 + 1 + 10 + 100
    assert admission.headroom(cache, second, [first], set()) == 30 + 1 + 10 + 70
    assert admission.headroom(cache, second, [], set()) == 0, "alone, its prompt must fit and no more"


def test_s7_a_lone_request_that_could_not_reserve_its_answer_runs() -> None:
    scheduler = Scheduler(RadixCache(8, 4), admission="ratio")
    alone = request(1, 20, max_tokens=500)
    scheduler.add(alone)
    assert admitted(scheduler) == [1]


def test_s7_keeping_room_preempts_less() -> None:
    counts = {}
    for rule in ("prompt", "ratio"):
        scheduler = Scheduler(RadixCache(60, 4), admission=rule)
        requests = [request(id, 10, first=100 * id, max_tokens=60) for id in range(1, 13)]
        for r in requests:
            scheduler.add(r)
        run_all(scheduler)
        assert all(r.output_tokens == 60 for r in requests)
        counts[rule] = sum(r.preemptions for r in requests)
    assert counts["ratio"] < counts["prompt"]


def test_several_prompts_are_in_prefill_at_once_under_the_budget() -> None:
    scheduler = Scheduler(RadixCache(64, 4), max_batch_tokens=50)
    for id, tokens in ((1, 20), (2, 20), (3, 30)):
        scheduler.add(request(id, tokens, first=100 * id))
    plan = scheduler.plan()
    assert [(w.request.id, w.length, w.samples) for w in plan.work] == [
        (1, 20, True),
        (2, 20, True),
        (3, 8, False),  # 10 are left, the chunk ends with a block
    ]
    finish_step(scheduler, plan)
    assert [(w.request.id, w.length) for w in scheduler.plan().work] == [(1, 1), (2, 1), (3, 22)]


def test_a_step_takes_what_fits_of_a_chunk() -> None:
    """Two answers grow while a long prompt is in prefill: of its last chunk of two blocks one has room."""
    scheduler = Scheduler(RadixCache(24, 4), max_batch_tokens=10)
    early = [request(id, 8, first=100 * id, max_tokens=40) for id in (1, 2)]
    late = request(3, 64, first=900, max_tokens=2)
    for r in early:
        scheduler.add(r)
    while not all(r.output_tokens for r in early):
        finish_step(scheduler, scheduler.plan())
    scheduler.add(late)
    chunks = []
    while late.computed < 60:
        plan = scheduler.plan()
        chunks += [w.length for w in plan.work if w.request is late]
        finish_step(scheduler, plan)
    assert chunks[-2:] == [8, 4]
    assert late.todo == 4, "so it was no whole rest"
    assert late.preemptions == 0
    run_all(scheduler)
    assert late.output_tokens == 2
    assert [r.preemptions for r in early] == [0, 0], "the last to arrive gives way"


@pytest.mark.parametrize(("pool", "fits"), [(6, True), (5, False)])
def test_the_next_token_of_those_who_run_has_room(pool: int, fits: bool) -> None:
    scheduler = Scheduler(RadixCache(pool, 4))
    scheduler.add(request(1, 16))
    finish_step(scheduler, scheduler.plan())  # its 4 blocks are full
    scheduler.add(request(2, 4, first=500))
    plan = scheduler.plan()
    assert [w.request.id for w in plan.work] == ([1, 2] if fits else [1])


def test_idle_prefixes_go_before_anyone_gives_way() -> None:
    cache = RadixCache(8, 4)
    warm(cache, range(500, 516), 99)
    scheduler = Scheduler(cache)
    only = request(1, 14, max_tokens=15)
    scheduler.add(only)
    run_all(scheduler)
    assert (only.preemptions, only.output_tokens, cache.evicted_blocks) == (0, 15, 4)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["radix", "hash", "none"])
@pytest.mark.parametrize("moment", ["waiting", "admitted", "mid-chunk", "decoding", "preempted", "finished"])
def test_q6_cancel_in_every_state(policy: str, kind: str, moment: str) -> None:
    """Blocks and locks come back, only what was written is found, and the other one goes on."""
    mirror = Mirror()
    cache = make_cache(kind, 20, 4, log=EventLog(mirror.apply))
    scheduler = Scheduler(cache, max_batch_tokens=16, policy=policy, max_overtaken=3)
    other = request(1, 12, first=500, max_tokens=30)
    victim = request(2, 36, max_tokens=20)
    scheduler.add(other)
    finish_step(scheduler, scheduler.plan())
    scheduler.add(victim)
    reached = {
        "waiting": lambda: True,
        "admitted": lambda: victim.state is State.RUNNING,
        "mid-chunk": lambda: victim.computed >= 24,
        "decoding": lambda: victim.output_tokens >= 2,
        "preempted": lambda: victim.preemptions > 0,
        "finished": lambda: victim.state is State.FINISHED,
    }[moment]
    written = 0
    while not reached():
        plan = scheduler.plan()
        if moment == "admitted":
            break  # planned, and nothing of it was written
        finish_step(scheduler, plan)
        written = max(written, victim.computed)
    scheduler.finish(victim, "aborted")
    scheduler.finish(victim, "aborted")
    cache.check_integrity()
    assert mirror.check() == []
    assert victim.id not in cache.rows
    assert [r.id for r in scheduler.waiting] == []
    found = cache.peek(np.append(victim.tokens, -1), "", victim.session)
    if moment in ("waiting", "admitted") or kind == "none":
        assert found == 0
    elif moment in ("mid-chunk", "decoding"):
        assert found == (written if kind == "radix" else written // 4 * 4)
    if moment == "admitted":
        for work in plan.work:
            if work.request is other:
                scheduler.computed(work)
                other.push(1)
    run_all(scheduler)
    assert other.output_tokens == 30
    assert cache.protected == 0
    assert cache.clear()
    assert cache.free == 20


def test_a_rematch_after_preemption_is_no_hit() -> None:
    mirror = Mirror()
    scheduler = Scheduler(make_cache("radix", 14, 4, log=EventLog(mirror.apply)), policy="lpm")
    shared = range(8)
    requests = [asking(id, shared, range(100 * id, 100 * id + 9), max_tokens=20) for id in (1, 2)]
    for r in requests:
        scheduler.add(r)
    run_all(scheduler)
    assert requests[1].preemptions > 0
    assert [r.cached for r in requests] == [0, 0], "both began in one step: 8 tokens are not worth waiting"
    assert mirror.totals.hit == mirror.totals.copied == 0
    assert mirror.totals.prompt_tokens == 34
