"""The one interface between the decoder and the kernels that do paged attention.

Layout (FlashInfer's NHD, which is also vLLM's and SGLang's): a layer's KV is one tensor
``[blocks, 2, block_size, kv_heads, head_dim]`` with K at index 0 and V at index 1 of the second
axis. A batch is described by indptr arrays (PagedAttention, arXiv 2309.06180; FlashInfer,
arXiv 2501.01005). Causal is bottom-right aligned: the new tokens' K/V are written *before* ``run``
and are counted in the lengths, so query token ``i`` of a request with ``q`` new and ``n`` tokens in
all sees the first ``n - q + i + 1``. That alone gives prefix reuse; no special kernel is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch


@dataclass(frozen=True)
class PagedBatch:
    """One step's batch on the host; all arrays int32.

    ``qo_indptr``  [B + 1]: request ``b``'s query rows are ``qo_indptr[b]:qo_indptr[b+1]``.
    ``kv_indptr``  [B + 1]: request ``b``'s blocks are ``kv_indices[kv_indptr[b]:kv_indptr[b+1]]``.
    ``kv_indices`` [kv_indptr[-1]]: physical block ids in logical order.
    ``last_page_len`` [B]: tokens in each request's last block, 1 … block_size, new tokens counted.
    """

    qo_indptr: npt.NDArray[np.int32]
    kv_indptr: npt.NDArray[np.int32]
    kv_indices: npt.NDArray[np.int32]
    last_page_len: npt.NDArray[np.int32]
    block_size: int

    @cached_property
    def kv_lens(self) -> npt.NDArray[np.int32]:
        """[B] tokens of KV each request has, the new ones counted."""
        pages = np.diff(self.kv_indptr)
        return ((pages - 1) * self.block_size + self.last_page_len).astype(np.int32)

    @cached_property
    def q_lens(self) -> npt.NDArray[np.int32]:
        """[B] new tokens of each request."""
        return np.diff(self.qo_indptr).astype(np.int32)

    def validate(self, num_blocks: int) -> None:
        """Raise ValueError, naming the field, where a kernel would read garbage or crash."""
        for name in ("qo_indptr", "kv_indptr", "kv_indices", "last_page_len"):
            array = getattr(self, name)
            if array.dtype != np.int32 or array.ndim != 1:
                raise ValueError(
                    f"{name}: want a flat int32 array, got {array.dtype} with shape {array.shape}"
                )
        batch = len(self.last_page_len)
        if len(self.qo_indptr) != batch + 1 or len(self.kv_indptr) != batch + 1:
            raise ValueError(
                f"indptr lengths {len(self.qo_indptr)} (qo) and {len(self.kv_indptr)} (kv) "
                f"must both be batch + 1 = {batch + 1}"
            )
        for name in ("qo_indptr", "kv_indptr"):
            array = getattr(self, name)
            if array[0] != 0 or (np.diff(array) < 1).any():
                raise ValueError(
                    f"{name}: must start at 0 and grow by at least 1 a request, got {array.tolist()}"
                )
        if len(self.kv_indices) != int(self.kv_indptr[-1]):
            raise ValueError(
                f"kv_indices has {len(self.kv_indices)} blocks, kv_indptr says {self.kv_indptr[-1]}"
            )
        if batch and (self.last_page_len.min() < 1 or self.last_page_len.max() > self.block_size):
            raise ValueError(
                f"last_page_len must lie in 1..{self.block_size}, got {self.last_page_len.tolist()}"
            )
        if len(self.kv_indices) and (self.kv_indices.min() < 0 or self.kv_indices.max() >= num_blocks):
            raise ValueError(f"kv_indices must lie in 0..{num_blocks - 1}")
        if (self.q_lens > self.kv_lens).any():
            raise ValueError("a request has more query rows than tokens of KV: write K/V before run")

    def validate_run(self, q: torch.Tensor, kv: torch.Tensor) -> None:
        """Raise ValueError where ``q`` and ``kv``, as given to ``run``, don't fit what was planned."""
        self.validate(kv.shape[0])
        if q.shape[0] != self.qo_indptr[-1] or kv.shape[2] != self.block_size:
            raise ValueError(
                f"planned {self.qo_indptr[-1]} rows and block size {self.block_size}, "
                f"got {q.shape[0]} rows and block size {kv.shape[2]}"
            )


class AttentionBackend(ABC):
    """Attention over the paged KV. ``plan`` once a step, then ``run`` once a layer."""

    name: str
    """As shown on the screen: ``torch``, ``flashinfer``."""
    batch: PagedBatch | None = None
    """What was planned last, for who attends without ``run``; None where ``plan`` does not keep it."""

    @abstractmethod
    def plan(self, batch: PagedBatch) -> None:
        """Take a step's batch; raises ValueError where it is malformed (``PagedBatch.validate``)."""

    @abstractmethod
    def run(self, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """Attention of one layer.

        ``q``: ``[tokens, heads, head_dim]``; ``kv``: ``[blocks, 2, block_size, kv_heads, head_dim]``,
        the new tokens already written. Returns ``[tokens, heads, head_dim]``, dtype of ``q``.
        Scale is ``1/sqrt(head_dim)``.
        """
