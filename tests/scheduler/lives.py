"""Requests and steps for scheduler tests: a cache without a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chatkv.kvcache.cache import KVCache
from chatkv.scheduler.plan import Plan
from chatkv.scheduler.request import Request
from chatkv.scheduler.scheduler import Scheduler

SAMPLED = 10_000_000
"""Sampled tokens start here: ids that no prompt uses."""


def request(id: int, tokens: int, first: int = 0, max_tokens: int = 100, namespace: str = "") -> Request:
    """``tokens`` ids that count up from ``first``."""
    prompt = np.arange(first, first + tokens, dtype=np.int32)
    return Request(id, f"s{id}", prompt, max_tokens=max_tokens, namespace=namespace)


def asking(id: int, *parts: Sequence[int], max_tokens: int = 100, namespace: str = "") -> Request:
    """A prompt of all ``parts`` one after the other."""
    prompt = np.concatenate([np.asarray(part, dtype=np.int32) for part in parts])
    return Request(id, f"s{id}", prompt, max_tokens=max_tokens, namespace=namespace)


def warm(cache: KVCache, tokens: Sequence[int], id: int, namespace: str = "") -> None:
    """``tokens`` were computed by a request that is over."""
    prompt = np.asarray(tokens, dtype=np.int32)
    opened = cache.open(id, prompt, namespace=namespace)
    assert opened is not None
    assert cache.grow(id, len(prompt))
    cache.commit(id, prompt[opened.cached :])
    cache.close(id, "finished")


def finish_step(scheduler: Scheduler, plan: Plan, check: bool = True) -> None:
    """What the engine does after the forward."""
    for work in plan.work:
        scheduler.computed(work)
        if work.samples:
            work.request.push(SAMPLED + 1000 * work.request.id + work.request.output_tokens)
            if work.request.output_tokens >= work.request.max_tokens:
                scheduler.finish(work.request, "finished")
    for lone in plan.exhausted:
        scheduler.finish(lone, "aborted")
    if check:
        scheduler.cache.check_integrity()


def run_all(scheduler: Scheduler, most: int = 100_000) -> int:
    """Step until nobody has work; how many steps."""
    steps = 0
    while scheduler.has_work:
        plan = scheduler.plan()
        assert plan.work or plan.exhausted, "a step must always do something"
        finish_step(scheduler, plan)
        steps += 1
        assert steps < most
    return steps


def admitted(scheduler: Scheduler) -> list[int]:
    """Plan and finish one step; who was admitted by it, in the order of their work."""
    before = {r.id for r in scheduler.running}
    plan = scheduler.plan()
    finish_step(scheduler, plan)
    return [w.request.id for w in plan.work if w.request.id not in before]
