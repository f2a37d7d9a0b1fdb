"""What every caller of the compiled attention kernels works out before a call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]

HEAD_MULTIPLE = 16
"""The kernels work on whole vectors: head_dim must be a multiple of this."""
PREFILL_HEAD_MULTIPLE = 32
"""The prefill kernel multiplies bf16 in pairs; where head_dim doesn't fit, prompts go another way."""
_PREFILL_KEYS = 32
"""Keys that the prefill kernel packs at a time."""


class Parts(NamedTuple):
    """Contexts in parts that are attended to apart and joined at the end (Flash-Decoding)."""

    owner: npt.NDArray[np.intp]
    """[P] of which context each is."""
    start: Int32
    """[P] its tokens are ``start`` to ``stop`` of the context."""
    stop: Int32
    indptr: Int32
    """[contexts + 1] where the parts of each begin."""


def context_parts(
    lengths: npt.NDArray[np.integer], size: int, without: npt.NDArray[np.bool_] | None = None
) -> Parts:
    """Parts of about ``size`` tokens of contexts of ``lengths``, nearly alike within one context.

    One at least of each context; none of those marked in ``without``.
    """
    counts = np.maximum(1, (lengths + size // 2) // size)
    if without is not None:
        counts[without] = 0
    indptr = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(counts, out=indptr[1:])
    owner = np.repeat(np.arange(len(lengths)), counts)
    index = np.arange(len(owner)) - indptr[owner]
    tokens, of = lengths[owner].astype(np.int64), counts[owner]
    return Parts(
        owner,
        (tokens * index // of).astype(np.int32),
        (tokens * (index + 1) // of).astype(np.int32),
        indptr,
    )


def packed_words(length: int, kv_heads: int, head_dim: int) -> int:
    """32-bit words that the prefill kernel packs a context's keys into."""
    return -(-length // _PREFILL_KEYS) * _PREFILL_KEYS * kv_heads * head_dim
