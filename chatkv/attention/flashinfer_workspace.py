"""The scratch memory of FlashInfer's wrappers: how much, who shares it, and what happens when it's too small.

Partial results of a context that was split lie in the *float* workspace; wrappers that run one after
another on one stream share it. The *int* workspace holds a wrapper's plan: each has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

FIRST_BYTES = 1 << 20
"""Until it's known what is needed: a wrapper can be asked only once it has some."""
FLOAT_BYTES = 256 << 20
"""Where the library can't tell what it needs (vLLM's value)."""
INT_BYTES = 8 << 20
"""The library's own value for a wrapper's plan."""
MOST_BYTES = 2 << 30
MARGIN = 1.25
"""Over the largest of a few extreme steps: the steps between them may need a little more."""


class Workspaces:
    """Owns the shared float workspace of all wrappers on ``device``."""

    def __init__(self, device: torch.device, float_bytes: int = FIRST_BYTES) -> None:
        self._device = device
        self.shared = self._zeros(float_bytes)

    def fit(self, wrapper: Any, plans: list[Mapping[str, Any]]) -> None:
        """Give ``wrapper`` what the largest of ``plans`` needs, by the library's own count.

        ``plans``: keyword arguments of its ``plan``. The shared workspace only grows; wrappers that had
        the one before keep it, so that captured graphs stay valid.
        """
        needs = [need for need in (needed(wrapper, plan) for plan in plans) if need is not None]
        if not needs:
            self._reserve(FLOAT_BYTES)
            wrapper.reset_workspace_buffer(self.shared, self._zeros(INT_BYTES))
            return
        self._reserve(int(max(float_bytes for float_bytes, _ in needs) * MARGIN))
        ints = max(INT_BYTES, int(max(int_bytes for _, int_bytes in needs) * MARGIN))
        wrapper.reset_workspace_buffer(self.shared, self._zeros(ints))

    def plan(self, wrapper: Any, arguments: Mapping[str, Any]) -> None:
        """``wrapper.plan(**arguments)``; with more memory once more where the library ran out of it."""
        try:
            wrapper.plan(**arguments)
            return
        except Exception as error:  # tvm-ffi turns a C++ error into whichever class it finds
            if "overflow" not in str(error).lower():
                raise
        need = needed(wrapper, arguments) or (2 * self.shared.numel(), 2 * INT_BYTES)
        if need[0] > MOST_BYTES:
            raise ValueError(
                f"FlashInfer wants {need[0] >> 20} MiB of scratch memory for this step: "
                "lower --max-batch-tokens or --max-running"
            )
        self._reserve(need[0])
        wrapper.reset_workspace_buffer(self.shared, self._zeros(max(INT_BYTES, need[1])))
        wrapper.plan(**arguments)

    def _reserve(self, float_bytes: int) -> None:
        if float_bytes > self.shared.numel():
            self.shared = self._zeros(float_bytes)

    def _zeros(self, size: int) -> torch.Tensor:
        # Decode kernels count on zeros at their first use. Whole pages, so that any alignment is met.
        return torch.zeros((size + 4095) // 4096 * 4096, dtype=torch.uint8, device=self._device)


def needed(wrapper: Any, arguments: Mapping[str, Any]) -> tuple[int, int] | None:
    """Bytes of float and int workspace a plan takes; None where this build of the library can't tell."""
    try:
        float_bytes, int_bytes = wrapper.workspace_size(**arguments)
    except (AttributeError, NotImplementedError):
        return None
    return int(float_bytes), int(int_bytes)
