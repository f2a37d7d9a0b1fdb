"""Which number format a device computes the decoder in, and which its weights are kept in."""

from __future__ import annotations

import torch

from chatkv.native.choice import OFF, WITH_BF16, chosen

NAMES = ("auto", "fp32", "bf16", "fp16", "int8", "int4")
PACKED = ("int8", "int4")
"""Forms of weights for products of few rows; activations, KV and larger products are bf16."""
BF16_CAPABILITY = (8, 0)
"""GPUs from this compute capability on have instructions for bf16."""


def auto_dtype(capability: tuple[int, int] | None = None) -> torch.dtype:
    """bf16 where there are instructions for it, else fp32 on a CPU and fp16 on a GPU.

    ``capability``: a GPU's compute capability, None for the CPU. A CPU's instructions are avx512_bf16 or AMX;
    without them a bf16 product is emulated and slower than fp32. Raises UsageError where ``CHATKV_NATIVE`` is
    no name; a kind of CPU without them counts as this one.
    """
    if capability is not None:
        return torch.bfloat16 if capability >= BF16_CAPABILITY else torch.float16
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or (chosen() or OFF) not in (OFF, *WITH_BF16):
        return torch.float32
    has_bf16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if has_bf16 else torch.float32


def parse_dtype(name: str, capability: tuple[int, int] | None = None) -> torch.dtype:
    """The dtype of activations and KV for one of ``NAMES``; raises ValueError for anything else.

    ``capability``: as for ``auto_dtype``.
    """
    if name not in NAMES:
        raise ValueError(f"unknown dtype {name!r}; use one of {', '.join(NAMES)}")
    if name == "auto":
        return auto_dtype(capability)
    return {"fp32": torch.float32, "fp16": torch.float16}.get(name, torch.bfloat16)


def dtype_name(dtype: torch.dtype) -> str:
    """The short name people see: ``bf16``, ``fp32``."""
    known = {torch.bfloat16: "bf16", torch.float32: "fp32", torch.float16: "fp16"}
    return known.get(dtype, str(dtype).removeprefix("torch."))
