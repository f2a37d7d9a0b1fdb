"""The engine's figures: how much it does, how long people wait, what reuse saves. No torch here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds, by the nearest rank, over the latest values; None where there are none."""

    p50: float | None = None
    p90: float | None = None
    p99: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """The percentiles of ``values`` in any order."""
        if not values:
            return cls()
        ordered = sorted(values)
        return cls(*(percentile(ordered, share) for share in (0.5, 0.9, 0.99)))


def percentile(values: Sequence[float], share: float) -> float:
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
    """Of all requests that ran so far, at their first attempt; ``reused_tokens`` of them were cached."""
    reused_tokens: int
    blocks_used: int
    """Blocks that requests hold; ``blocks_cached`` hold prefixes that nobody uses now."""
    blocks_cached: int
    blocks_free: int
    saved_s: float | None
    """Seconds that reuse saved so far, estimated: ``reused_tokens`` times what one more token in a step
    costs (the slope of a line through tokens and seconds of the latest steps); None before it is known."""

    @property
    def hit_rate(self) -> float:
        """``reused_tokens`` / ``prompt_tokens``, 0…1; 0 before any."""
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else 0.0
