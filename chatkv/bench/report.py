"""Measured runs as a table: medians over the rounds, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from chatkv.engine.stats import percentile

Run = dict[str, Any]


def figures(run: Run) -> dict[str, float]:
    """What one run comes to, by the name of the row."""
    prompt = run["prompt_tokens"] or 1
    stats = run["stats"]
    verified = (
        {
            "verified tokens": run["verified_tokens"],
            "answers that differ": len(run["differing"]),
            "largest difference of a logit": run["largest_difference"],
        }
        if run["verified_answers"] or run["differing"]
        else {}
    )
    return {
        "wall time, s": run["wall_s"],
        "output tok/s": run["output_tokens"] / run["wall_s"],
        "prompt + output tok/s": (run["prompt_tokens"] + run["output_tokens"]) / run["wall_s"],
        "TTFT p50, ms": 1000 * percentile(run["ttft_s"], 0.5),
        "TTFT p95, ms": 1000 * percentile(run["ttft_s"], 0.95),
        "inter-token p50, ms": 1000 * (stats["inter_token_s"]["p50"] or 0),
        "inter-token p99, ms": 1000 * (stats["inter_token_s"]["p99"] or 0),
        "prefill tok/s": stats["prefill_tps"] or 0,
        "decode tok/s": stats["decode_tps"] or 0,
        "saved by reuse (estimate), s": stats["saved_s"] or 0,
        "prompt tokens": run["prompt_tokens"],
        "reused tokens": run["reused_tokens"],
        "of them copied": run["copied_tokens"],
        "computed tokens": run["computed_tokens"],
        "hit rate, %": 100 * run["reused_tokens"] / prompt,
        "output tokens": run["output_tokens"],
        "evictions": run["evictions"],
        "evicted blocks": run["evicted_blocks"],
        "preemptions": run["preemptions"],
        "outside the forward, % of step": 100 * (1 - run["forward_s"] / run["step_s"])
        if run["step_s"]
        else 0.0,
        "unfilled slots a request, mean": sum(run["unfilled_slots"]) / (len(run["unfilled_slots"]) or 1),
        "peak memory, MiB": run["peak_memory"] / (1 << 20),
        "load, s": run["load_s"],
        **verified,
    }


def medians(runs: Sequence[Run]) -> dict[str, float]:
    """The median of each figure over ``runs``."""
    each = [figures(run) for run in runs]
    return {name: median(f[name] for f in each) for name in each[0]}


def spread(runs: Sequence[Run], name: str) -> tuple[float, float]:
    """Least and most of a figure over ``runs``."""
    values = [figures(run)[name] for run in runs]
    return min(values), max(values)


def show(value: float) -> str:
    """A figure with as many decimals as it bears."""
    if value == int(value):
        return f"{int(value):,}"
    if value < 0.01:
        return f"{value:.2g}"
    return f"{value:.2f}" if value < 10 else f"{value:,.1f}"


def cell(middle: float, low: float, high: float) -> str:
    """A median, and least and most where they differ."""
    return show(middle) if low == high else f"{show(middle)} ({show(low)}–{show(high)})"
