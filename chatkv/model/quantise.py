"""From a checkpoint's bf16 weights to packed ones.

A checkpoint that was 4-bit before (a Q4_1 or Q4_0 GGUF) packs to 4 bits without loss: each group of 32
columns holds at most 16 values, evenly spaced between the group's least and greatest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch

from chatkv.model.checkpoint import DecoderWeights, LayerWeights
from chatkv.model.linear import GROUP, Int4Linear, Int8Linear, Linear, WidenedLinear
from chatkv.native.library import kernels

EXACT = 2.0**-7
"""A group's largest error in parts of its largest weight, up to which bf16's own rounding explains it."""
_SAMPLE = 64
"""Rows of each layer's matrices that are looked at to find out whether a checkpoint was 4-bit."""


def codes4(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """``weight`` ``[out, in]`` (``in`` a multiple of ``GROUP``) as 4-bit codes: int32 ``[out, in]``, and
    fp32 ``[in / GROUP, out, 2]``, the step between codes and the value of code 8.
    """
    rows, columns = weight.shape
    native = kernels(weight.dtype)
    if native is not None:
        weight = weight.contiguous()
        values = torch.empty((rows, columns), dtype=torch.int32)
        scales = torch.empty((columns // GROUP, rows, 2))
        native.codes4(weight.data_ptr(), values.data_ptr(), scales.data_ptr(), rows, columns)
        return values, scales
    groups = weight.view(rows, columns // GROUP, GROUP)
    low, high = (bound.float() for bound in groups.aminmax(dim=-1, keepdim=True))
    step = (high - low).div_(15).clamp_(min=1e-12)
    values = groups.float().sub_(low).div_(step).round_().clamp_(0, 15).to(torch.int32).view(rows, columns)
    return values, torch.cat((step, low + 8 * step), dim=-1).transpose(0, 1)


def codes8(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """``weight`` ``[out, in]`` as int8 codes ``[out, in]`` and fp32 steps ``[out]``."""
    rows, columns = weight.shape
    native = kernels(weight.dtype)
    if native is not None:
        weight = weight.contiguous()
        values = torch.empty((rows, columns), dtype=torch.int8)
        steps = torch.empty(rows)
        native.codes8(weight.data_ptr(), values.data_ptr(), steps.data_ptr(), rows, columns)
        return values, steps
    wide = weight.float()
    step = wide.abs().amax(dim=1, keepdim=True).div_(127).clamp_(min=1e-12)
    return wide.div_(step).round_().to(torch.int8), step.flatten()


def was_4bit(weights: DecoderWeights) -> bool:
    """Whether 4 bits hold this checkpoint's layers to within bf16's rounding."""
    if any(linear.weight.shape[1] % GROUP for layer in weights.layers for linear in _linears(layer)):
        return False
    return all(_loss(linear.weight[:_SAMPLE]) <= EXACT for linear in _linears(weights.layers[0]))


def pack(weights: DecoderWeights, form: str) -> DecoderWeights:
    """``weights`` with packed linears. ``form``: ``int4`` (the head in 8 bits: in 4 it costs much quality)
    or ``int8``. A matrix whose columns don't fill groups stays in 8 bits.
    """
    head = Int8Linear(weights.head, *codes8(weights.head.weight))
    return _with_linears(weights, lambda linear: _packed(linear, form), head)


def widened(weights: DecoderWeights) -> DecoderWeights:
    """bf16 ``weights`` whose products of many rows are computed in fp32."""

    def widen(linear: Linear) -> Linear:
        return WidenedLinear(linear.weight, linear.bias)

    return _with_linears(weights, widen, widen(weights.head))


def _with_linears(weights: DecoderWeights, form: Callable[[Linear], Linear], head: Linear) -> DecoderWeights:
    layers = tuple(
        replace(
            layer,
            qkv=form(layer.qkv),
            output=form(layer.output),
            gate_up=form(layer.gate_up),
            down=form(layer.down),
        )
        for layer in weights.layers
    )
    return replace(weights, layers=layers, head=head)


@cache
def unusable(form: str) -> str | None:
    """Why torch's packed product can't be used here, or None: its operators are not a stable interface."""
    try:
        weight = torch.linspace(-1, 1, 64 * 64).view(64, 64).to(torch.bfloat16)
        x = torch.linspace(1, -1, 2 * 64).view(2, 64).to(torch.bfloat16)
        plain = Linear(weight)
        got, want = _packed(plain, form)(x).float(), plain(x).float()
        if not torch.allclose(got, want, atol=0.25, rtol=0.05):
            return f"torch's {form} product gives wrong numbers on this machine"
    except (RuntimeError, AttributeError, NotImplementedError) as error:
        return f"torch {torch.__version__} has no {form} product here ({str(error).splitlines()[0][:80]})"
    return None


def _packed(linear: Linear, form: str) -> Linear:
    if form == "int8" or linear.weight.shape[1] % GROUP:
        return Int8Linear(linear, *codes8(linear.weight))
    return Int4Linear(linear, *codes4(linear.weight))


def _loss(weight: torch.Tensor) -> float:
    """The largest error of 4 bits in parts of the group's largest weight."""
    values, scales = codes4(weight)
    rows, columns = weight.shape
    by_group = scales.transpose(0, 1)
    groups = (
        values.view(rows, columns // GROUP, GROUP).float().sub_(8) * by_group[..., :1] + by_group[..., 1:]
    )
    want = weight.view(rows, columns // GROUP, GROUP).float()
    largest = want.abs().amax(-1).clamp_(min=1e-12)
    return float(((groups - want).abs().amax(-1) / largest).max())


def _linears(layer: LayerWeights) -> tuple[Linear, ...]:
    return layer.qkv, layer.output, layer.gate_up, layer.down
