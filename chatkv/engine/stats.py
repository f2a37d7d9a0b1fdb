"""The engine's figures: how much it does, how long people wait, what reuse saves. No torch here."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from chatkv.scheduler.scheduler import Scheduler

TTFTS_KEPT, GAPS_KEPT, STEPS_KEPT = 256, 2048, 256
"""How many of the latest values the percentiles, and the speeds, are taken over."""
EVERY_S = 0.25
"""Figures are told at most this often, and once more when all is done."""
FEWEST_STEPS = 8
"""From so few steps no cost of a token can be told."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds, by the nearest rank, over the latest values; None where there are none."""

    p50: float | None = None
    p90: float | None = None
    p99: float | None = None

    @classmethod
    def of(cls, values: Collection[float]) -> Percentiles:
        """The percentiles of ``values`` in any order."""
        if not values:
            return cls()
        ordered = sorted(values)
        return cls(*(percentile(ordered, share) for share in (0.5, 0.9, 0.99)))


def percentile(values: Collection[float], share: float) -> float:
    """The least of ``values`` that ``share`` (0…1) of them do not exceed (nearest rank); 0 for none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    # Rounded first: 0.07 * 100 is a little more than 7 in floating point.
    rank = math.ceil(round(share * len(ordered), 9))
    return ordered[min(max(rank, 1), len(ordered)) - 1]


@dataclass(frozen=True, slots=True)
class EngineStats:
    """How the engine does now. Counts are of this moment, speeds and percentiles of the latest past."""

    waiting: int
    running: int
    prefill_tps: float | None
    """Prompt tokens a second, over the latest steps that computed some; None before any."""
    decode_tps: float | None
    """Sampled tokens a second of all answers together, over the latest steps that computed some."""
    ttft_s: Percentiles
    inter_token_s: Percentiles
    prompt_tokens: int
    """Of all requests that began to answer; ``reused_tokens`` of them were cached when they first ran."""
    reused_tokens: int
    blocks_used: int
    """Blocks that requests hold; ``blocks_cached`` hold prefixes that nobody uses now."""
    blocks_cached: int
    blocks_free: int
    unfilled_slots: int
    """Slots in blocks of running requests that hold no token: what paging wastes, under a block a request."""
    saved_s: float | None
    """Seconds that reuse saved so far, estimated: reused tokens times what one more token in a step cost
    when they were reused (the slope of a line through tokens and seconds of the latest steps); it never gets
    less. None before that is known."""

    @property
    def hit_rate(self) -> float:
        """``reused_tokens`` / ``prompt_tokens``, 0…1; 0 before any."""
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class Counts:
    """What is counted elsewhere: requests and blocks of this moment."""

    waiting: int
    running: int
    blocks_used: int
    blocks_cached: int
    blocks_free: int
    unfilled_slots: int

    @classmethod
    def of(cls, scheduler: Scheduler, forks: int) -> Counts:
        """As they are now; ``forks``: requests that wait for the prompt of another one."""
        cache = scheduler.cache
        waiting, running = len(scheduler.waiting) + forks, len(scheduler.running)
        return cls(waiting, running, cache.protected, cache.evictable, cache.free, cache.unfilled)


class Meter:
    """Takes in what happens, gives ``EngineStats``. ``clock`` (seconds) only decides when they are due."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._told_at = -math.inf
        self._changed = False
        self._steps: deque[tuple[int, int, float]] = deque(maxlen=STEPS_KEPT)
        self._ttfts: deque[float] = deque(maxlen=TTFTS_KEPT)
        self._gaps: deque[float] = deque(maxlen=GAPS_KEPT)
        self._prompt = self._reused = 0
        self._saved: float | None = None
        self._unpriced = 0
        """Reused tokens of which is not known yet what they would have cost."""

    def step(self, prefill: int, decode: int, seconds: float) -> None:
        """A step computed ``prefill`` tokens of prompts and ``decode`` of answers."""
        self._steps.append((prefill, decode, seconds))
        self._changed = True

    def began(self, prompt_tokens: int, cached: int, ttft_s: float) -> None:
        """A request has its first token; ``cached`` at its first attempt."""
        self._ttfts.append(ttft_s)
        self._prompt += prompt_tokens
        self._reused += cached
        self._unpriced += cached
        self._changed = True

    def gap(self, seconds: float) -> None:
        """Between two tokens of one answer."""
        self._gaps.append(seconds)

    def changed(self) -> None:
        """Something else happened that people are to see."""
        self._changed = True

    def due(self, idle: bool) -> bool:
        """Whether to tell the figures now; then they count as told. ``idle``: nothing more will happen."""
        now = self._clock()
        if not self._changed or not (idle or now - self._told_at >= EVERY_S):
            return False
        self._told_at, self._changed = now, False
        return True

    def stats(self, counts: Counts) -> EngineStats:
        """The figures now."""
        self._price()
        return EngineStats(
            waiting=counts.waiting,
            running=counts.running,
            prefill_tps=_speed([(prefill, seconds) for prefill, _, seconds in self._steps]),
            decode_tps=_speed([(decode, seconds) for _, decode, seconds in self._steps]),
            ttft_s=Percentiles.of(self._ttfts),
            inter_token_s=Percentiles.of(self._gaps),
            prompt_tokens=self._prompt,
            reused_tokens=self._reused,
            blocks_used=counts.blocks_used,
            blocks_cached=counts.blocks_cached,
            blocks_free=counts.blocks_free,
            unfilled_slots=counts.unfilled_slots,
            saved_s=self._saved,
        )

    def _price(self) -> None:
        """Now, while steps like theirs are the latest: later ones say what answers cost."""
        if self._unpriced or self._saved is None:
            cost = self._cost()
            if cost is not None:
                self._saved = (self._saved or 0.0) + cost * self._unpriced
                self._unpriced = 0

    def _cost(self) -> float | None:
        """Seconds that one more token adds to a step: the slope of the line with the least squares.

        The speed of prefill steps would not do: where most is cached, they are short, and what a step
        costs anyway would count as the price of their few tokens.
        """
        if len(self._steps) < FEWEST_STEPS or not any(prefill for prefill, *_ in self._steps):
            return None
        sizes = [prefill + decode for prefill, decode, _ in self._steps]
        mean_size = sum(sizes) / len(sizes)
        mean_s = sum(seconds for *_, seconds in self._steps) / len(sizes)
        spread = sum((size - mean_size) ** 2 for size in sizes)
        if spread == 0:
            return None
        both = sum(
            (size - mean_size) * (seconds - mean_s)
            for size, (*_, seconds) in zip(sizes, self._steps, strict=True)
        )
        return max(both / spread, 0.0)


def _speed(steps: Sequence[tuple[int, float]]) -> float | None:
    """Tokens a second over the steps that had some; a mixed step counts whole for both kinds."""
    some = [(tokens, seconds) for tokens, seconds in steps if tokens]
    total = sum(seconds for _, seconds in some)
    return sum(tokens for tokens, _ in some) / total if total > 0 else None
