"""A forward of few rows in one compiled call: all layers, without an operator between them.

A decode step of a small model has three hundred operators of a few microseconds each; starting them
costs more than reading the weights. Activations are fp32 here, rounded to 16 bits where they meet packed
weights, so that it is at least as exact as bf16. Larger batches take ``Decoder.forward``'s usual way.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
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
from chatkv.model.checkpoint import DecoderWeights
from chatkv.model.config import DecoderConfig
from chatkv.model.linear import GROUP, Linear
from chatkv.model.native_operators import NativeOperators
from chatkv.native.library import Kernels
from chatkv.native.structs import PackedWeights, PrefillPlan, Step, StepLayer, StepModel

MAX_ROWS = 32
"""Up to this many rows packed weights are faster than bf16 ones, on a CPU with instructions for bf16."""
PART = 128
"""Tokens of context a part of a row's attention has about."""
PREFILL_ROWS = 4
"""From so many rows of one request on, its attention goes by tiles of queries."""
_STRIP = 16
_PAIR_BYTES = 4 * _STRIP
"""Of a strip's group: the steps and the values of code 8."""

_LINEARS = ("qkv", "output", "gate_up", "down")


def unfit(config: DecoderConfig) -> str | None:
    """Why a model's shape does not fit, in words; None where it does."""
    width = config.num_heads * config.head_dim
    for name, size in (("hidden", config.hidden), ("intermediate", config.intermediate), ("heads", width)):
        if size % GROUP:
            return f"{name} size {size} is no multiple of {GROUP}"
    if config.head_dim % HEAD_MULTIPLE:
        return f"head_dim {config.head_dim} is no multiple of {HEAD_MULTIPLE}"
    return None


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


class FusedStep:
    """Packed weights of a whole decoder, bf16 on the CPU, and the call that goes through them."""

    def __init__(
        self, config: DecoderConfig, weights: DecoderWeights, operators: NativeOperators, form: str
    ) -> None:
        """``form``: ``int4`` (the head in 8 bits: in 4 it costs much quality) or ``int8``.

        ``weights`` stay the caller's; raises ValueError where ``unfit``.
        """
        if problem := unfit(config):
            raise ValueError(problem)
        self.config = config
        self.max_rows = MAX_ROWS
        """Larger forwards are better done the usual way."""
        self._operators = operators
        self._kernels: Kernels = operators.kernels
        self._kept: list[torch.Tensor] = []
        """Everything whose address the kernels have."""
        bits = 4 if form == "int4" else 8
        linears = [getattr(layer, name) for layer in weights.layers for name in _LINEARS]
        self._arena = _Arena(
            sum(_code_bytes(linear, bits) for linear in linears) + _code_bytes(weights.head, 8)
        )
        layers = (StepLayer * config.num_layers)()
        for slot, layer in zip(layers, weights.layers, strict=True):
            slot.attn_norm, slot.mlp_norm = self._wide(layer.attn_norm), self._wide(layer.mlp_norm)
            slot.q_norm, slot.k_norm = self._wide(layer.q_norm), self._wide(layer.k_norm)
            for name in _LINEARS:
                setattr(slot, name, self._packed(getattr(layer, name), bits))
        self._layers = layers
        self._embedding = weights.embedding.contiguous()
        self._model = StepModel(
            ctypes.addressof(layers),
            self._embedding.data_ptr(),
            self._wide(weights.final_norm),
            self._packed(weights.head, 8),
            config.num_layers,
            config.hidden,
            config.intermediate,
            config.rms_norm_eps,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
        )
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self._tiles = torch.empty(0, dtype=torch.int32)

    def run(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor,
        kv: torch.Tensor,
        batch: PagedBatch,
        logit_rows: torch.Tensor,
    ) -> torch.Tensor:
        """As ``Decoder.forward``, for at most ``max_rows`` rows; ``logit_rows`` must rise."""
        config, model = self.config, self._model
        model.block_size = batch.block_size
        plan = self._plan(batch)
        prefills, rows = self._prefills(batch, plan.prefills)
        parts = len(plan.row)
        needed = self._kernels.step_bytes(ctypes.addressof(model), len(token_ids), parts)
        if len(self._scratch) < needed:
            self._scratch = torch.empty(needed, dtype=torch.uint8)
        logits = torch.empty((len(logit_rows), config.vocab))
        angles = self._operators.angles(int(batch.kv_lens.max()))
        # Kept in names until the call is over: the kernels get addresses.
        token_ids, positions, slots = token_ids.contiguous(), positions.contiguous(), slots.contiguous()
        logit_rows, indices = logit_rows.contiguous(), np.ascontiguousarray(batch.kv_indices)
        step = Step(
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
            self._scratch.data_ptr(),
            logits.data_ptr(),
            len(token_ids),
            len(logit_rows),
            parts,
            len(prefills),
        )
        self._kernels.step(ctypes.addressof(model), ctypes.addressof(step))
        return logits

    def _plan(self, batch: PagedBatch) -> _Rows:
        new, lengths = batch.q_lens, batch.kv_lens
        tiled = (new >= PREFILL_ROWS) & (self.config.head_dim % PREFILL_HEAD_MULTIPLE == 0)
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
        c = self.config
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

    def _packed(self, linear: Linear, bits: int) -> PackedWeights:
        rows, columns = linear.weight.shape
        weight = linear.weight.contiguous()
        codes, steps = self._arena.take(_code_bytes(linear, bits)), None
        if bits == 4:
            self._kernels.pack4(weight.data_ptr(), codes, rows, columns)
        else:
            steps = torch.empty(-(-rows // _STRIP) * _STRIP)
            self._kernels.pack8(weight.data_ptr(), codes, steps.data_ptr(), rows, columns)
        return PackedWeights(codes, self._wide(steps), self._wide(linear.bias), rows, columns, bits, 0)

    def _wide(self, tensor: torch.Tensor | None) -> int | None:
        """The address of ``tensor`` in fp32."""
        if tensor is None:
            return None
        self._kept.append(tensor.float().contiguous())
        return self._kept[-1].data_ptr()


class _Arena:
    """One piece of memory for all codes, in the order they are read; in huge pages where Linux gives them."""

    def __init__(self, size: int) -> None:
        self._memory = mmap.mmap(-1, size)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._next = torch.frombuffer(self._memory, dtype=torch.uint8).data_ptr()

    def take(self, size: int) -> int:
        """The address of the next ``size`` bytes."""
        self._next += size
        return self._next - size


def _code_bytes(linear: Linear, bits: int) -> int:
    """A multiple of 64."""
    rows, columns = linear.weight.shape
    group = _STRIP * GROUP * bits // 8 + (_PAIR_BYTES if bits == 4 else 0)
    return -(-rows // _STRIP) * (columns // GROUP) * group
