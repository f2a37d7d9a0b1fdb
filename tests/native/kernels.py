"""The compiled kernels; a test that needs them is skipped, with the reason, where there are none."""

from __future__ import annotations

import pytest
import torch

from chatkv.native.library import Kernels, kernels, why_not


def native(dtype: torch.dtype) -> Kernels:
    found = kernels(dtype)
    if found is None:
        pytest.skip(f"native kernels: {why_not()}")
    return found
