"""The likeliest token of a row of logits; a step of several greedy requests looks for as many."""

from __future__ import annotations

import torch

from chatkv.native.library import kernels


def likeliest(logits: torch.Tensor) -> int:
    """The first index of the largest of ``logits`` (fp32 [vocab], on the CPU); -1 where one is no number."""
    native = kernels(torch.float32)
    if native is not None and logits.dtype == torch.float32 and logits.is_contiguous():
        return int(native.likeliest(logits.data_ptr(), len(logits)))
    token = int(logits.argmax())  # a logit that is not a number counts as the largest
    return -1 if logits[token].isnan() else token
