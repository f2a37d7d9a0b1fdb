"""The next token from a row of logits. Each request has its own generator, so its text depends on its
own seed only and not on who else is in the batch.
"""

from __future__ import annotations

import torch

from chatkv.engine.messages import Sampling

GREEDY_BELOW = 1e-4
"""Dividing logits by less than this can only overflow; the likeliest token has all the probability."""


class Sampler:
    """Draws the tokens of one request. ``sampling`` as checked by ``check_sampling``."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._generator = torch.Generator()
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed)

    def draw(self, logits: torch.Tensor) -> int:
        """One token id from ``logits`` (fp32 [vocab], on the CPU)."""
        s = self.sampling
        if logits.isnan().any():
            raise ValueError("the model gave logits that are not numbers")
        if s.temperature < GREEDY_BELOW:
            return int(logits.argmax())
        logits = logits / s.temperature
        if s.top_k:
            kth = logits.topk(min(s.top_k, len(logits))).values[-1]
            logits = logits.masked_fill(logits < kth, float("-inf"))
        probs = logits.softmax(-1)
        if s.top_p < 1:
            ordered, index = probs.sort(descending=True)
            # Keep the smallest set whose mass reaches top_p: drop what comes after that mass is reached.
            ordered[ordered.cumsum(-1) - ordered > s.top_p] = 0
            probs = torch.zeros_like(probs).scatter_(0, index, ordered)
        return int(torch.multinomial(probs, 1, generator=self._generator))


def check_sampling(sampling: Sampling) -> str | None:
    """One line that names the value that can't work, else None."""
    s = sampling
    if not 0 <= s.temperature <= 100:
        return f"temperature must be 0 (greedy) to 100, got {s.temperature}"
    if not 0 < s.top_p <= 1:
        return f"top_p must be above 0 and at most 1, got {s.top_p}"
    if s.top_k < 0:
        return f"top_k must be 0 (off) or more, got {s.top_k}"
    if s.max_tokens < 1:
        return f"max_tokens must be at least 1, got {s.max_tokens}"
    if s.seed is not None and not 0 <= s.seed < 2**63:
        return f"seed must be 0 to 2^63 - 1, got {s.seed}"
    return None
