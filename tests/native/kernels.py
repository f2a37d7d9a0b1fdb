"""The compiled kernels; a test that needs them is skipped, with the reason, where there are none."""

from __future__ import annotations

import pytest
import torch

from chatkv.native import library
from chatkv.native.library import Kernels, kernels, why_not


def native(dtype: torch.dtype) -> Kernels:
    found = kernels(dtype)
    if found is None:
        pytest.skip(f"native kernels: {why_not()}")
    return found


def variants(dtype: torch.dtype) -> list[Kernels]:
    """The kernels of every instruction set that this machine has."""
    native(dtype)
    opened = [(library._open(name), name) for name in library._variants()]
    return [Kernels(found, name, dtype) for found, name in opened if not isinstance(found, str)]
