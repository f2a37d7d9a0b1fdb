"""What FlashInfer's fa2 kernels can and can't do, as plain rules: asked before anything is compiled.

The library itself checks little of this: a head_dim it has no kernel for reads out of bounds or gives wrong
numbers without a word (flashinfer#4299), and a group size the CUDA-core kernel lacks fails inside a build
(flashinfer#996).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

HEAD_DIMS = (64, 128, 256)
"""Head sizes that FlashInfer dispatches and tests on every architecture."""
CUDA_CORE_GROUPS = (1, 2, 3, 4, 6, 8, 16)
"""Query heads a KV head that the decode kernel without tensor cores was compiled for."""
TENSOR_CORE_GROUP = 4
"""From this many query heads a KV head on, a decode step fills enough of a tensor core's tile to pay."""
OLDEST_GPU = (7, 5)
OLDEST_BF16_GPU = (8, 0)


@dataclass(frozen=True, slots=True)
class Heads:
    """What of a model attention sees. ``dtype``: of queries, KV and output."""

    heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.heads // self.kv_heads


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest step there will be: what workspaces are sized for."""

    block_size: int = 16
    batch_tokens: int = 512
    requests: int = 64
    context: int = 8192

    def pages(self, tokens: int) -> int:
        """Blocks that ``tokens`` of one request fill."""
        return -(-tokens // self.block_size)


def arch(capability: tuple[int, int]) -> str:
    """A compute capability as compilers name it: ``sm_90``."""
    return f"sm_{capability[0]}{capability[1]}"


def wants_tensor_cores(group: int) -> bool:
    """Whether decode takes the tensor-core kernel: where it pays, and where the other one has no group 7."""
    return group >= TENSOR_CORE_GROUP or group not in CUDA_CORE_GROUPS


def refusal(heads: Heads, capability: tuple[int, int]) -> str | None:
    """Why FlashInfer can't serve this model on a GPU of this compute capability; None where it can."""
    if capability < OLDEST_GPU:
        return f"it needs a GPU of sm_75 or newer, this one is {arch(capability)}"
    if heads.dtype not in (torch.float16, torch.bfloat16):
        return f"it computes in bf16 and fp16, not {str(heads.dtype).removeprefix('torch.')}"
    if heads.dtype == torch.bfloat16 and capability < OLDEST_BF16_GPU:
        return f"bf16 needs a GPU of sm_80 or newer, this one is {arch(capability)}"
    if heads.head_dim not in HEAD_DIMS:
        known = ", ".join(map(str, HEAD_DIMS))
        return f"it has no kernel for head_dim {heads.head_dim} (only {known})"
    if heads.kv_heads < 1 or heads.heads % heads.kv_heads:
        return f"{heads.heads} query heads are no whole groups over {heads.kv_heads} KV heads"
    return None
