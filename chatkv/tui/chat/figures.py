"""The one dim line under an answer: what was reused, what was computed, how fast, and why it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENDINGS = {
    "aborted": "stopped",
    "length": "cut at the token limit · ask it to go on, or raise --max-tokens",
    "context": "the context is full · start a new session or fork from an earlier message",
    "cache full": "the KV pool is full · stop other sessions, or start with a larger --kv-memory",
    "error": "ended by an error",
    "quit": "ended by quitting",
}
"""Endings that a person should read about; ``stop`` needs no word."""


def seconds(value: float) -> str:
    """``41 ms``, ``1.24 s``, ``73 s``."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def tokens_per_second(count: int, decode_s: float | None) -> float | None:
    """Speed of ``count`` sampled tokens of which the first came before ``decode_s`` began; None if unknown."""
    return (count - 1) / decode_s if decode_s and count > 1 else None


def answer_line(meta: Mapping[str, Any], tokens: int) -> str:
    """``reused 384 (12 copied) │ computed 22 │ ttft 41 ms │ 38.2 tok/s`` from a message's ``meta``."""
    parts: list[str] = []
    cached, computed = _number(meta, "cached"), _number(meta, "computed")
    if cached is not None:
        copied = _number(meta, "copied")
        parts.append(f"reused {cached:,.0f}" + (f" ({copied:,.0f} copied)" if copied else ""))
    if computed is not None:
        parts.append(f"computed {computed:,.0f}")
    if (ttft := _number(meta, "ttft_s")) is not None:
        parts.append(f"ttft {seconds(ttft)}")
    if (speed := tokens_per_second(tokens, _number(meta, "decode_s"))) is not None:
        parts.append(f"{speed:.1f} tok/s")
    return " │ ".join(parts)


def ending(meta: Mapping[str, Any]) -> str:
    """Why the answer ended, in words; empty where the model simply finished."""
    return ENDINGS.get(str(meta.get("reason", "")), "")


def _number(meta: Mapping[str, Any], key: str) -> float | None:
    """A session file is outside input: anything but a finite number reads as unknown."""
    value = meta.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e15 else None
