"""A batch as the compiled forwards want it: rows, their contexts in parts or tiles, and memory to work in."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.native_plan import PREFILL_HEAD_MULTIPLE, Int32, context_parts, packed_words
from chatkv.model.config import DecoderConfig
from chatkv.model.native_operators import NativeOperators
from chatkv.native.structs import PrefillPlan, Step

PART = 128
"""Tokens of context a part of a row's attention has about."""
PREFILL_ROWS = 4
"""From so many rows of one request on, its attention goes by tiles of queries."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """How a batch's rows attend: single ones by parts of their context, many of a request by tiles."""

    row: Int32
    first: Int32
    """Of each part: where its row's blocks begin in ``kv_indices``."""
    start: Int32
    stop: Int32
    row_part: Int32
    """[rows + 1]: the parts of each row."""
    prefills: npt.NDArray[np.intp]
    """Requests that go by tiles."""


class StepInputs:
    """Owns what a ``Step`` points to, until the next one is described."""

    def __init__(self, config: DecoderConfig, operators: NativeOperators) -> None:
        self._config, self._operators = config, operators
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self._tiles = torch.empty(0, dtype=torch.int32)
        self._held: tuple[Any, ...] = ()
        """Everything whose address the step has."""

    def describe(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor,
        kv: torch.Tensor,
        batch: PagedBatch,
        logit_rows: torch.Tensor,
        logits: torch.Tensor | None,
    ) -> Step:
        """As ``Decoder.forward``; ``logit_rows`` must rise; ``logits`` fp32 ``[R, vocab]`` or None. The
        step's scratch is still to be set.
        """
        plan = self._plan(batch)
        prefills, rows = self._prefills(batch, plan.prefills)
        angles = self._operators.angles(int(batch.kv_lens.max()))
        token_ids, positions, slots = token_ids.contiguous(), positions.contiguous(), slots.contiguous()
        logit_rows, indices = logit_rows.contiguous(), np.ascontiguousarray(batch.kv_indices)
        self._held = (
            plan,
            prefills,
            rows,
            angles,
            token_ids,
            positions,
            slots,
            kv,
            logit_rows,
            indices,
            logits,
        )
        return Step(
            token_ids.data_ptr(),
            positions.data_ptr(),
            slots.data_ptr(),
            logit_rows.data_ptr(),
            angles.data_ptr(),
            kv.data_ptr(),
            kv.stride(0),
            indices.ctypes.data,
            plan.row.ctypes.data,
            plan.first.ctypes.data,
            plan.start.ctypes.data,
            plan.stop.ctypes.data,
            plan.row_part.ctypes.data,
            ctypes.addressof(prefills),
            rows.ctypes.data,
            None,
            None if logits is None else logits.data_ptr(),
            len(token_ids),
            len(logit_rows),
            len(plan.row),
            len(prefills),
        )

    def scratch(self, needed: int) -> int:
        """The address of ``needed`` bytes, the same memory each time."""
        if len(self._scratch) < needed:
            self._scratch = torch.empty(needed, dtype=torch.uint8)
        return self._scratch.data_ptr()

    def _plan(self, batch: PagedBatch) -> _Rows:
        new, lengths = batch.q_lens, batch.kv_lens
        tiled = (new >= PREFILL_ROWS) & (self._config.head_dim % PREFILL_HEAD_MULTIPLE == 0)
        request = np.repeat(np.arange(len(new)), new)
        index = np.arange(len(request)) - batch.qo_indptr[request]
        seen = (lengths - new)[request] + index + 1
        parts = context_parts(seen, PART, without=tiled[request])
        return _Rows(
            row=parts.owner.astype(np.int32),
            first=batch.kv_indptr[request[parts.owner]].astype(np.int32),
            start=parts.start,
            stop=parts.stop,
            row_part=parts.indptr,
            prefills=np.flatnonzero(tiled),
        )

    def _prefills(
        self, batch: PagedBatch, which: npt.NDArray[np.intp]
    ) -> tuple[ctypes.Array[PrefillPlan], Int32]:
        c = self._config
        words = [packed_words(length, c.num_kv_heads, c.head_dim) for length in batch.kv_lens[which].tolist()]
        if len(self._tiles) < sum(words):
            self._tiles = torch.empty(sum(words), dtype=torch.int32)
        plans, at = (PrefillPlan * len(which))(), self._tiles.data_ptr()
        for plan, b, size in zip(plans, which.tolist(), words, strict=True):
            plan.blocks = batch.kv_indices.ctypes.data + 4 * int(batch.kv_indptr[b])
            plan.packed = at
            plan.rows, plan.length = int(batch.q_lens[b]), int(batch.kv_lens[b])
            plan.heads, plan.kv_heads = c.num_heads, c.num_kv_heads
            plan.head_dim, plan.block_size = c.head_dim, batch.block_size
            at += 4 * size
        return plans, np.ascontiguousarray(batch.qo_indptr[which])
