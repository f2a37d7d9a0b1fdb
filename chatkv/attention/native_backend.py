"""Paged attention on CPUs by compiled kernels over the block table; prefill in fp32 stays with torch.

The decode kernel reads the blocks where they lie (vLLM's PagedAttention, arXiv 2309.06180), in parts of the
context that are joined at the end (Flash-Decoding), so that one request keeps all cores busy.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.native_plan import (
    HEAD_MULTIPLE,
    PREFILL_HEAD_MULTIPLE,
    Int32,
    context_parts,
    packed_words,
)
from chatkv.attention.torch_backend import Prefill, TorchBackend
from chatkv.native.library import Kernels
from chatkv.native.structs import DecodePlan, PrefillPlan

PART = 256
"""Tokens of context a part has about: below, waking a thread costs more than it saves."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """int32 arrays the kernel reads; they live as long as the plan."""

    kv_indptr: Int32
    kv_indices: Int32
    kv_lens: Int32
    rows: Int32
    part_request: Int32
    part_start: Int32
    part_stop: Int32


class NativeBackend(TorchBackend):
    """For CPU tensors in the dtype of ``kernels``; ``head_dim`` a multiple of 16 (ValueError in ``run``)."""

    name = "native"

    def __init__(self, kernels: Kernels) -> None:
        super().__init__()
        self._kernels = kernels
        self._parts: _Parts | None = None
        self._plan: DecodePlan | None = None
        self._partial = np.zeros(0, dtype=np.float32)
        self._packed = torch.empty(0, dtype=torch.int32)

    def _plan_decode(self, batch: PagedBatch, which: npt.NDArray[np.intp]) -> None:
        lengths = batch.kv_lens[which]
        parts = context_parts(lengths, PART)
        indptr = np.zeros(len(which) + 1, dtype=np.int32)
        np.cumsum(np.diff(batch.kv_indptr)[which], out=indptr[1:])
        if len(which) == len(batch.last_page_len):
            indices = batch.kv_indices
        else:
            indices = np.concatenate(
                [batch.kv_indices[batch.kv_indptr[b] : batch.kv_indptr[b + 1]] for b in which]
            )
        self._parts = _Parts(
            kv_indptr=indptr,
            kv_indices=np.ascontiguousarray(indices),
            kv_lens=np.ascontiguousarray(lengths),
            rows=np.ascontiguousarray(batch.qo_indptr[which]),
            part_request=parts.owner.astype(np.int32),
            part_start=parts.start,
            part_stop=parts.stop,
        )
        self._plan = None

    def _run_decode(self, q: torch.Tensor, kv: torch.Tensor, out: torch.Tensor) -> None:
        if self._plan is None:
            self._plan = self._describe(q, kv)
        q = q.contiguous()
        self._kernels.paged_decode(ctypes.addressof(self._plan), q.data_ptr(), kv.data_ptr(), out.data_ptr())

    def _run_prefill(self, q: torch.Tensor, kv: torch.Tensor, plan: Prefill, out: torch.Tensor) -> None:
        _, heads, head_dim = q.shape
        kernel, kv_heads = self._kernels.paged_prefill, kv.shape[3]
        if kernel is None or head_dim % PREFILL_HEAD_MULTIPLE:
            super()._run_prefill(q, kv, plan, out)
            return
        self._check(q, kv)
        needed = packed_words(plan.length, kv_heads, head_dim)
        if len(self._packed) < needed:
            self._packed = torch.empty(needed, dtype=torch.int32)
        q = q.contiguous()
        sizes = PrefillPlan(
            plan.blocks.ctypes.data,
            self._packed.data_ptr(),
            len(q),
            plan.length,
            heads,
            kv_heads,
            head_dim,
            kv.shape[2],
        )
        kernel(ctypes.addressof(sizes), q.data_ptr(), kv.data_ptr(), out.data_ptr())

    def _describe(self, q: torch.Tensor, kv: torch.Tensor) -> DecodePlan:
        assert self._parts is not None
        _, heads, head_dim = q.shape
        kv_heads = kv.shape[3]
        self._check(q, kv)
        arrays = self._parts
        parts = len(arrays.part_request)
        needed = parts * heads * (head_dim + 2)
        if len(self._partial) < needed:
            self._partial = np.zeros(needed, dtype=np.float32)
        return DecodePlan(
            *(getattr(arrays, name).ctypes.data for name in _Parts.__slots__),
            self._partial.ctypes.data,
            len(arrays.rows),
            parts,
            heads,
            kv_heads,
            head_dim,
            kv.shape[2],
        )

    def _check(self, q: torch.Tensor, kv: torch.Tensor) -> None:
        """Raise ValueError where the kernels would read garbage."""
        _, heads, head_dim = q.shape
        if head_dim % HEAD_MULTIPLE or heads % kv.shape[3] or {q.dtype, kv.dtype} != {self._kernels.dtype}:
            raise ValueError(
                f"the native kernels need head_dim in multiples of {HEAD_MULTIPLE}, whole groups of heads "
                f"and {self._kernels.dtype}, got {head_dim}, {heads}/{kv.shape[3]}, {q.dtype} and {kv.dtype}"
            )
        if not kv.is_contiguous():
            raise ValueError("the native kernels need contiguous KV")
