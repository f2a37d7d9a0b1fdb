"""Hot and cold requests through the engine: what a queue policy gives the many and takes from the few.

A number of clients ask again as soon as they are answered. Most ask hot prompts, which begin with one of a
few long texts; a small share is cold, each unlike any other. More ask than may run, so there is a queue.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from chatkv.bench.workload import random_words
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import GenerateRequest, Sampling, Turn
from chatkv.engine.stats import percentile
from chatkv.errors import UsageError
from chatkv.scheduler.events import RequestAdmitted


@dataclass(frozen=True, slots=True)
class HotCold:
    """``clients`` ask ``requests`` prompts in all, ``cold_percent`` of them cold."""

    requests: int = 300
    clients: int = 24
    cold_percent: int = 5
    groups: int = 2
    prefix_words: int = 150
    user_words: int = 8
    answer_tokens: int = 8
    seed: int = 0

    def validate(self) -> HotCold:
        """Return self; raise UsageError naming the option that can't work."""
        for name in ("requests", "clients", "groups", "prefix_words", "user_words", "answer_tokens"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.cold_percent < 100:
            raise UsageError(f"--cold-percent must be 1 to 99, got {self.cold_percent}")
        if self.requests * self.cold_percent < 100:
            least = -(-100 // self.cold_percent)
            none = f"of {self.requests} requests none is cold"
            raise UsageError(f"{none}: --cold-percent {self.cold_percent} takes {least} or more")
        return self


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt."""

    cold: bool
    text: str


def asks(workload: HotCold) -> list[Ask]:
    """All prompts in the order in which they are asked; the same for the same seed.

    Cold ones come at even distances.
    """
    rng = random.Random(workload.seed)
    prefixes = [random_words(rng, workload.prefix_words) for _ in range(workload.groups)]
    out = []
    for index in range(workload.requests):
        share = workload.cold_percent
        cold = (index + 1) * share // 100 > index * share // 100
        prefix = random_words(rng, workload.prefix_words) if cold else rng.choice(prefixes)
        out.append(Ask(cold, f"{prefix} {random_words(rng, workload.user_words)}"))
    return out


@dataclass
class HotColdResult:
    """Seconds, tokens and counts; ``ttft_s`` and ``overtaken`` of each request, hot and cold apart."""

    model: str
    policy: str
    wall_s: float = 0.0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    hot_ttft_s: list[float] = field(default_factory=list)
    cold_ttft_s: list[float] = field(default_factory=list)
    hot_overtaken: list[int] = field(default_factory=list)
    cold_overtaken: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def run_hot_cold(
    config: EngineConfig,
    workload: HotCold,
    sampling: Sampling,
    progress: Callable[[str, int, int], None],
) -> HotColdResult:
    """Ask all, never more than ``clients`` at once; every answer is ``answer_tokens`` long.

    Raises ChatkvError.
    """
    from chatkv.engine.inline import InlineEngine

    engine = InlineEngine(config, lambda stage, _: progress(stage, 0, 0))
    result = HotColdResult(engine.ready.model, engine.ready.policy)
    sampling = replace(sampling, max_tokens=workload.answer_tokens, ignore_stop=True)
    todo = list(enumerate(asks(workload), start=1))[::-1]
    cold: set[int] = set()
    overtaken: dict[int, int] = {}

    def ask() -> None:
        id, prompt = todo.pop()
        if prompt.cold:
            cold.add(id)
        engine.submit(GenerateRequest(f"s{id}", (Turn("user", prompt.text),), sampling))

    done = 0
    start = time.perf_counter()
    for _ in range(min(workload.clients, workload.requests)):
        ask()
    for batch in engine.batches():
        for event in batch.events:
            if isinstance(event, RequestAdmitted):
                overtaken[event.request] = event.overtaken
        for finished in batch.finished:
            done += 1
            result.prompt_tokens += finished.prompt_tokens
            result.reused_tokens += finished.cached
            result.output_tokens += len(finished.token_ids)
            is_cold = finished.request in cold
            if finished.ttft_s is not None:
                (result.cold_ttft_s if is_cold else result.hot_ttft_s).append(finished.ttft_s)
            passed = overtaken.get(finished.request, 0)
            (result.cold_overtaken if is_cold else result.hot_overtaken).append(passed)
            if finished.message:
                result.failed.append(finished.message)
            progress("answers", done, workload.requests)
            if todo:
                ask()
    result.wall_s = time.perf_counter() - start
    return result


def figures(run: dict[str, Any]) -> dict[str, float]:
    """What one run comes to, by the name of the row."""
    rows = {
        "wall time, s": run["wall_s"],
        "output tok/s": run["output_tokens"] / run["wall_s"],
        "hit rate, %": 100 * run["reused_tokens"] / (run["prompt_tokens"] or 1),
    }
    for kind in ("hot", "cold"):
        ttft, passed = run[f"{kind}_ttft_s"], run[f"{kind}_overtaken"]
        rows[f"{kind} requests"] = len(passed)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("most", 1.0)):
            rows[f"{kind} TTFT {name}, ms"] = 1000 * percentile(ttft, share)
        for name, share in (("p50", 0.5), ("most", 1.0)):
            rows[f"{kind} overtaken, {name}"] = percentile(passed, share)
    return rows


def spread(runs: Sequence[dict[str, Any]], name: str) -> tuple[float, float, float]:
    """Median, least and most of a figure over ``runs``."""
    values = [figures(run)[name] for run in runs]
    return median(values), min(values), max(values)
