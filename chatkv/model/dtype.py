"""Which number format a device computes the decoder in."""

from __future__ import annotations

import torch

NAMES = ("auto", "bf16", "fp32")


def auto_dtype(device: str = "cpu") -> torch.dtype:
    """bf16 on CUDA and on CPUs with bf16 instructions (avx512_bf16, AMX), else fp32.

    Without such instructions a bf16 product is emulated and slower than fp32.
    """
    if torch.device(device).type == "cuda":
        return torch.bfloat16
    has_bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if has_bf16 else torch.float32


def parse_dtype(name: str, device: str = "cpu") -> torch.dtype:
    """``auto``, ``bf16`` or ``fp32`` as a torch dtype; raises ValueError for anything else."""
    if name == "auto":
        return auto_dtype(device)
    try:
        return {"bf16": torch.bfloat16, "fp32": torch.float32}[name]
    except KeyError:
        raise ValueError(f"unknown dtype {name!r}; use one of {', '.join(NAMES)}") from None


def dtype_name(dtype: torch.dtype) -> str:
    """The short name people see: ``bf16``, ``fp32``."""
    return {torch.bfloat16: "bf16", torch.float32: "fp32"}.get(dtype, str(dtype).removeprefix("torch."))
