"""Log-probabilities of what was sampled, for people to read."""

from __future__ import annotations

from collections.abc import Callable

import torch

from chatkv.engine.messages import Candidate, TokenLogprob


def logprob_of(logits: torch.Tensor, token: int, top: int, piece: Callable[[int], str]) -> TokenLogprob:
    """``token`` and the ``top`` likeliest in ``logits`` (fp32 [vocab], as the model gave them)."""
    logprobs = logits.log_softmax(-1)
    values, ids = logprobs.topk(min(top, len(logprobs)))
    return TokenLogprob(
        token,
        piece(token),
        float(logprobs[token]),
        int((logprobs > logprobs[token]).sum()) + 1,
        tuple(Candidate(i, piece(i), v) for i, v in zip(ids.tolist(), values.tolist(), strict=True)),
    )
