"""Which number format a device computes the decoder in, and which its weights are kept in."""

from __future__ import annotations

import torch

NAMES = ("auto", "fp32", "bf16", "int8", "int4")
PACKED = ("int8", "int4")
"""Forms of weights for products of few rows; activations, KV and larger products are bf16."""


def auto_dtype(device: str = "cpu") -> torch.dtype:
    """bf16 on CUDA and on CPUs with bf16 instructions (avx512_bf16, AMX), else fp32.

    Without such instructions a bf16 product is emulated and slower than fp32.
    """
    if torch.device(device).type == "cuda":
        return torch.bfloat16
    has_bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if has_bf16 else torch.float32


def parse_dtype(name: str, device: str = "cpu") -> torch.dtype:
    """The dtype of activations and KV for one of ``NAMES``; raises ValueError for anything else."""
    if name not in NAMES:
        raise ValueError(f"unknown dtype {name!r}; use one of {', '.join(NAMES)}")
    if name == "auto":
        return auto_dtype(device)
    return torch.float32 if name == "fp32" else torch.bfloat16


def dtype_name(dtype: torch.dtype) -> str:
    """The short name people see: ``bf16``, ``fp32``."""
    return {torch.bfloat16: "bf16", torch.float32: "fp32"}.get(dtype, str(dtype).removeprefix("torch."))
