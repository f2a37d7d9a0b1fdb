"""Which sampling can work. No torch here: the command line checks before anything is loaded."""

from __future__ import annotations

from chatkv.engine.messages import Sampling

MAX_STOPS, MAX_STOP_CHARS = 16, 256
MAX_LOGPROBS = 20


def check_sampling(sampling: Sampling) -> str | None:
    """One line that begins with the name of the value that can't work, else None."""
    s = sampling
    for name, value, low, high, hint in (
        ("temperature", s.temperature, 0, 100, "0 (greedy) to 100"),
        ("min_p", s.min_p, 0, 1, "0 (off) to 1"),
        ("presence_penalty", s.presence_penalty, -10, 10, "-10 to 10 (0: off)"),
        ("frequency_penalty", s.frequency_penalty, -10, 10, "-10 to 10 (0: off)"),
    ):
        if not low <= value <= high:  # nor is a NaN
            return f"{name} must be {hint}, got {value}"
    if not 0 < s.top_p <= 1:
        return f"top_p must be above 0 and at most 1, got {s.top_p}"
    if not 0.01 <= s.repetition_penalty <= 100:
        return f"repetition_penalty must be 0.01 to 100 (1: off), got {s.repetition_penalty}"
    if s.top_k < 0:
        return f"top_k must be 0 (off) or more, got {s.top_k}"
    if s.max_tokens < 1:
        return f"max_tokens must be at least 1, got {s.max_tokens}"
    if s.seed is not None and not 0 <= s.seed < 2**63:
        return f"seed must be 0 to 2^63 - 1, got {s.seed}"
    if s.logprobs is not None and not 0 <= s.logprobs <= MAX_LOGPROBS:
        return f"logprobs must be 0 to {MAX_LOGPROBS}, got {s.logprobs}"
    if len(s.stop) > MAX_STOPS:
        return f"stop takes at most {MAX_STOPS} texts, got {len(s.stop)}"
    if any(not 0 < len(text) <= MAX_STOP_CHARS for text in s.stop):
        return f"stop texts must have 1 to {MAX_STOP_CHARS} characters each"
    return None
