"""Rotary position embedding, half-split layout (``rotate_half``), as in the Hugging Face models."""

from __future__ import annotations

import math

import torch

from chatkv.model.config import RopeConfig


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> torch.Tensor:
    """fp32 ``[head_dim / 2]``: radians a position, scaled as ``rope.kind`` says."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).to(torch.float32) / head_dim
    inverse = 1.0 / (rope.theta**exponents)
    if rope.kind == "linear":
        return inverse / rope.factor
    if rope.kind == "llama3":
        wavelength = 2 * math.pi / inverse
        cycles = rope.original_max_position / wavelength
        smooth = (cycles - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
        blended = (1 - smooth) * inverse / rope.factor + smooth * inverse
        scaled = torch.where(cycles < rope.low_freq_factor, inverse / rope.factor, inverse)
        between = (cycles >= rope.low_freq_factor) & (cycles <= rope.high_freq_factor)
        return torch.where(between, blended, scaled)
    return inverse


def rotation(
    positions: torch.Tensor, inverse: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """``cos`` and signed ``sin``, each ``[N, 1, head_dim]`` in ``dtype``, for int64 ``positions`` ``[N]``.

    Angles are computed in fp32. ``sin`` carries the minus sign of the first half, so that a rotation
    is ``x * cos + swap_halves(x) * sin``.
    """
    angles = positions.to(torch.float32)[:, None] * inverse
    cos, sin = angles.cos(), angles.sin()
    return (
        torch.cat((cos, cos), dim=-1).to(dtype)[:, None],
        torch.cat((-sin, sin), dim=-1).to(dtype)[:, None],
    )


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate ``x`` ``[N, heads, head_dim]`` by what ``rotation`` gave."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)
