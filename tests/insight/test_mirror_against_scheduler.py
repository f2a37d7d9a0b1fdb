"""Requests of a real scheduler over a pool that is too small: the mirror counts what really happened."""

from __future__ import annotations

import random

import numpy as np

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import EventLog
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.scheduler import events as sched
from chatkv.scheduler.request import Request, State
from chatkv.scheduler.scheduler import Scheduler

STATES = {State.WAITING: ("waiting", "preempted"), State.RUNNING: ("running",), State.FINISHED: ("finished",)}


def test_states_outputs_and_totals() -> None:
    rng = random.Random(7)
    mirror = Mirror()
    cache = RadixCache(14, 4, log=EventLog(mirror.apply))
    scheduler = Scheduler(cache, max_batch_tokens=16)
    requests = []
    for number in range(1, 25):
        length = rng.randint(1, 24)
        tokens = np.array([rng.randint(1, 2) for _ in range(length)], np.int32)
        requests.append(Request(number, f"s{number % 3}", tokens, max_tokens=rng.randint(1, 12)))
    left = requests.copy()
    while left or scheduler.has_work:
        if left and rng.random() < 0.5:
            scheduler.add(left.pop(0))
        plan = scheduler.plan()
        for work in plan.work:
            scheduler.computed(work)
            if work.samples:
                work.request.push(rng.randint(1, 2))
        cache.log.emit(sched.StepDone, step=scheduler.steps, step_s=0.0, forward_s=0.0)
        for request in [*plan.exhausted, *(work.request for work in plan.work)]:
            if request.output_tokens >= request.max_tokens or request in plan.exhausted:
                scheduler.finish(request, "finished")
        assert mirror.check() == []
        assert mirror.gaps == []
        for request in requests:
            if request.id in mirror.requests:
                view = mirror.requests[request.id]
                assert view.state in STATES[request.state]
                assert view.output_tokens == request.output_tokens
                assert view.preemptions == request.preemptions
                assert (view.cached, view.copied) == (request.cached, request.copied)
    totals = mirror.totals
    assert totals.preempted > 0
    assert totals.evictions > 0
    assert totals.finished == len(requests)
    assert totals.output_tokens == sum(request.output_tokens for request in requests)
    assert totals.prompt_tokens == sum(request.prompt_tokens for request in requests)
    assert totals.copied == sum(request.copied for request in requests) > 0
    assert totals.hit + totals.copied == sum(request.cached for request in requests)
    assert totals.computed == totals.prompt_tokens - totals.hit - totals.copied
