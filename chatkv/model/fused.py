"""A forward of few rows in one compiled call: all layers, without an operator between them.

A decode step of a small model has three hundred operators of a few microseconds each; starting them
costs more than reading the weights. Activations are fp32 here, rounded to 16 bits where they meet packed
weights, so that it is at least as exact as bf16. Larger batches take
``WideStep`` or ``Decoder.forward``'s usual way.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress

import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.native_plan import HEAD_MULTIPLE
from chatkv.model.checkpoint import DecoderWeights
from chatkv.model.config import DecoderConfig
from chatkv.model.linear import GROUP, Linear
from chatkv.model.native_operators import NativeOperators
from chatkv.model.step_inputs import StepInputs
from chatkv.native.library import Kernels
from chatkv.native.structs import PackedWeights, StepLayer, StepModel

MAX_ROWS = 32
"""Up to this many rows packed weights are faster than bf16 ones, on a CPU with instructions for bf16."""
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
        """Larger forwards are better done another way."""
        self.inputs = StepInputs(config, operators)
        self._kernels: Kernels = operators.kernels
        self._kept: list[torch.Tensor] = []
        """Everything whose address the kernels have."""
        bits = 4 if form == "int4" else 8
        linears = [getattr(layer, name) for layer in weights.layers for name in _LINEARS]
        self._arena = Arena(
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
        self.model = StepModel(
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
        model = self.model
        model.block_size = batch.block_size
        logits = torch.empty((len(logit_rows), self.config.vocab))
        step = self.inputs.describe(token_ids, positions, slots, kv, batch, logit_rows, logits)
        needed = self._kernels.step_bytes(ctypes.addressof(model), step.rows, step.parts)
        step.scratch = self.inputs.scratch(needed)
        self._kernels.step(ctypes.addressof(model), ctypes.addressof(step))
        return logits

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


class Arena:
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
