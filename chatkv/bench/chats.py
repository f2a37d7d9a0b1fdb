"""Run a workload of chats headless through the engine and measure it."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from chatkv.bench.workload import Script, Workload, scripts
from chatkv.engine.config import EngineConfig
from chatkv.engine.inline import InlineEngine
from chatkv.engine.messages import EngineStats, GenerateRequest, Sampling, Turn
from chatkv.engine.verifier import ANSWERS_KEPT
from chatkv.insight.mirror import Mirror
from chatkv.scheduler.events import StepDone


@dataclass
class ChatsResult:
    """Times in seconds, memory in bytes, the rest in tokens or counts."""

    cache: str
    model: str
    dtype: str
    attention: str
    num_blocks: int
    block_size: int
    load_s: float
    wall_s: float = 0.0
    forward_s: float = 0.0
    step_s: float = 0.0
    steps: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    copied_tokens: int = 0
    computed_tokens: int = 0
    output_tokens: int = 0
    evictions: int = 0
    evicted_blocks: int = 0
    preemptions: int = 0
    peak_memory: int = 0
    unfilled_slots: list[float] = field(default_factory=list)
    """After each step, by request: slots in its blocks that hold no token."""
    ttft_s: list[float] = field(default_factory=list)
    stats: EngineStats | None = None
    """The engine's own figures at the end: percentiles, speeds apart, time saved."""
    failed: list[str] = field(default_factory=list)
    verified_answers: int = 0
    verified_tokens: int = 0
    largest_difference: float = 0.0
    """Of any logit with and without the cache; of answers that were verified."""
    differing: list[str] = field(default_factory=list)
    """One line for each answer whose greedy tokens differ."""


def run_chats(
    config: EngineConfig,
    workload: Workload,
    sampling: Sampling,
    progress: Callable[[str, int, int], None],
) -> ChatsResult:
    """All sessions talk at once, each asking its next question when its answer is there.

    ``sampling``: its seed is the first request's, the next has the next one. Where ``config`` says
    ``verify``, the answers are verified behind the measured part (the latest ones, see ``Verifier``).
    ``progress(stage, done, total)`` hears of every finished answer. Raises ChatkvError.
    """
    engine = InlineEngine(replace(config, verify=False), lambda stage, _: progress(stage, 0, 0))
    core, ready = engine.core, engine.ready
    result = ChatsResult(
        config.cache,
        ready.model,
        ready.dtype,
        ready.attention,
        ready.num_blocks,
        ready.block_size,
        ready.load_s,
    )
    mirror = Mirror()
    talks: dict[str, tuple[Script, list[Turn]]] = {
        s.session: (s, [Turn("system", s.system)]) for s in scripts(workload)
    }
    total = workload.sessions * workload.turns
    next_id = 0

    def ask(session: str) -> None:
        nonlocal next_id
        script, turns = talks[session]
        turns.append(Turn("user", script.turns[len(turns) // 2]))
        next_id += 1
        own = sampling if sampling.seed is None else replace(sampling, seed=sampling.seed + next_id - 1)
        engine.submit(GenerateRequest(session, tuple(turns), own))

    start = time.perf_counter()
    for session in talks:
        ask(session)
    for batch in engine.batches():
        if core.cache.rows:
            result.unfilled_slots.append(core.cache.unfilled / len(core.cache.rows))
        mirror.apply_all(batch.events)
        for event in batch.events:
            if isinstance(event, StepDone):
                result.step_s += event.step_s
                result.forward_s += event.forward_s
        for done in batch.finished:
            result.requests += 1
            result.prompt_tokens += done.prompt_tokens
            result.reused_tokens += done.cached
            result.copied_tokens += done.copied
            result.computed_tokens += done.computed
            result.output_tokens += len(done.token_ids)
            if done.ttft_s is not None:
                result.ttft_s.append(done.ttft_s)
            if done.message:
                result.failed.append(done.message)
            progress("answers", result.requests, total)
            script, turns = talks[done.session]
            turns.append(Turn("assistant", done.text, done.token_ids))
            if len(turns) // 2 < len(script.turns):
                ask(done.session)
    result.wall_s = time.perf_counter() - start
    result.steps = mirror.totals.steps
    result.evictions = mirror.totals.evictions
    result.evicted_blocks = mirror.totals.evicted_blocks
    result.preemptions = mirror.totals.preempted
    result.stats = core.stats
    result.peak_memory = peak_memory()
    if config.verify:
        _verify(engine, range(max(1, next_id - ANSWERS_KEPT + 1), next_id + 1), result, progress)
    return result


def _verify(
    engine: InlineEngine,
    ids: range,
    result: ChatsResult,
    progress: Callable[[str, int, int], None],
) -> None:
    for id in ids:
        engine.core.verify(id)
    done = 0
    for batch in engine.batches():
        for found in batch.verified:
            done += 1
            progress("verified", done, len(ids))
            result.verified_answers += found.positions > 0
            result.verified_tokens += found.positions
            result.largest_difference = max(result.largest_difference, found.max_difference)
            if found.differing is not None or not found.positions:
                result.differing.append(found.message)


def peak_memory() -> int:
    """The largest resident size this process had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
