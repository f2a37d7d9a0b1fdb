"""A forward of many rows in one compiled call, on CPUs with AMX: the twin of ``fused`` for prompts.

Its products multiply bf16 tiles with weights that were laid out for them once. That form replaces the
weights' plain one, so that no memory is lost by it.
"""

from __future__ import annotations

import ctypes
from functools import partial

import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.native_plan import PREFILL_HEAD_MULTIPLE
from chatkv.model.checkpoint import DecoderWeights
from chatkv.model.config import DecoderConfig
from chatkv.model.fused import MAX_ROWS, Arena, FusedStep
from chatkv.model.linear import Linear
from chatkv.native.library import Kernels
from chatkv.native.structs import Panel, WideLayer

_STRIP = 16
_BLOCK = 2 * _STRIP
"""Columns of a product that are computed together."""


def fits(config: DecoderConfig, kernels: Kernels) -> bool:
    """Whether a model that ``fused`` takes can go this way too."""
    return kernels.wide is not None and config.head_dim % PREFILL_HEAD_MULTIPLE == 0


class WideStep:
    """The weights of ``fused`` once more, in bf16 for tiles, and the call that goes through them."""

    def __init__(
        self, config: DecoderConfig, weights: DecoderWeights, fused: FusedStep, kernels: Kernels
    ) -> None:
        """The linears of ``weights`` but the head let go of their tensors; ``fits`` must say yes."""
        self._fused, self._weights, self._kernels = fused, weights, kernels
        self._kept: list[torch.Tensor] = []
        """Everything whose address the kernels have."""
        c = config
        qkv = (c.num_heads + 2 * c.num_kv_heads) * c.head_dim
        shapes = (
            (qkv, c.hidden),
            (c.hidden, c.num_heads * c.head_dim),
            (2 * c.intermediate, c.hidden),
            (c.hidden, c.intermediate),
        )
        self._arena = Arena(c.num_layers * sum(rows * columns * 2 for rows, columns in shapes))
        half = c.intermediate // _STRIP
        # A strip of up beside its strip of gate: their products meet in registers.
        gated = torch.arange(2 * half).view(2, half).T.flatten()
        self._layers = (WideLayer * c.num_layers)()
        for slot, layer in zip(self._layers, weights.layers, strict=True):
            slot.qkv, slot.output = self._panel(layer.qkv), self._panel(layer.output)
            slot.gate_up, slot.down = self._panel(layer.gate_up, gated), self._panel(layer.down)

    def run(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor,
        kv: torch.Tensor,
        batch: PagedBatch,
        logit_rows: torch.Tensor,
    ) -> torch.Tensor:
        """As ``Decoder.forward``; ``logit_rows`` must rise."""
        model, inputs, rows = self._fused.model, self._fused.inputs, len(logit_rows)
        model.block_size = batch.block_size
        # The packed head reads less, the plain one computes faster.
        logits = torch.empty((rows, len(self._weights.embedding))) if rows <= MAX_ROWS else None
        normed = torch.empty((0 if logits is not None else rows, model.hidden), dtype=torch.bfloat16)
        step = inputs.describe(token_ids, positions, slots, kv, batch, logit_rows, logits)
        where = (ctypes.addressof(model), ctypes.addressof(self._layers), ctypes.addressof(step))
        step.scratch = inputs.scratch(self._kernels.wide_bytes(*where))
        self._kernels.wide(*where, normed.data_ptr())
        return self._weights.head(normed).float() if logits is None else logits

    def _panel(self, linear: Linear, order: torch.Tensor | None = None) -> Panel:
        """``order``: the strips of ``linear`` as they are to stand."""
        weight, bias = linear.weight.contiguous(), linear.bias
        rows, columns = weight.shape
        strips = torch.arange(rows // _STRIP, dtype=torch.int32) if order is None else order.to(torch.int32)
        words = self._arena.take(weight.nbytes)
        self._kernels.pack_panel(weight.data_ptr(), strips.data_ptr(), words, rows, columns)
        linear.hand_over(partial(self._unpacked, words, strips, rows, columns))
        address = None
        if bias is not None:
            self._kept.append(bias.float().view(-1, _STRIP)[strips].flatten())
            address = self._kept[-1].data_ptr()
        return Panel(words, address, rows // _BLOCK, columns // _BLOCK)

    def _unpacked(self, words: int, strips: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        weight = torch.empty((rows, columns), dtype=torch.bfloat16)
        self._kernels.unpack_panel(words, strips.data_ptr(), weight.data_ptr(), rows, columns)
        return weight
