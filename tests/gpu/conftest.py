"""Tests that need an NVIDIA GPU: ``make test-gpu``. Elsewhere each is skipped, and says why."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import torch

from chatkv.attention.flashinfer.backend import FlashInferBackend
from chatkv.attention.flashinfer.probe import load
from chatkv.attention.flashinfer.rules import Heads, Limits
from chatkv.engine.cuda_graph import CudaGraphs, Graph
from chatkv.engine.devices import cuda_problem
from chatkv.model.checkpoint import load_weights
from chatkv.model.config import DecoderConfig
from chatkv.model.decoder import Decoder

COMPILING_S = 1800
"""A kernel that isn't in the cache takes a minute or two, and a test may need several."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    problem = cuda_problem()
    if problem is None and os.environ.get("FLASHINFER_DISABLE_JIT"):
        problem = "kernels can't be compiled in this process: make test-gpu has one of its own"
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(COMPILING_S))
            if problem is not None:
                item.add_marker(pytest.mark.skip(reason=f"no GPU: {problem}"))


class Machine(NamedTuple):
    """What is tested: a device, the library for it, and what captures its work."""

    device: torch.device
    library: ModuleType
    new_graph: Callable[[], Graph]

    def backend(self, heads: Heads, **limits: int) -> FlashInferBackend:
        return FlashInferBackend(self.library, heads, self.device, Limits(**limits))

    def decoder(self, folder: Path, dtype: torch.dtype = torch.bfloat16) -> Decoder:
        config = DecoderConfig.load(folder)
        with torch.inference_mode():
            return Decoder(config, load_weights(folder, config, dtype, str(self.device)))

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


@pytest.fixture(scope="session")
def machine() -> Machine:
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    return Machine(device, load(), CudaGraphs(device))


def heads_of(decoder: Decoder) -> Heads:
    c = decoder.config
    return Heads(c.num_heads, c.num_kv_heads, c.head_dim, decoder.dtype)


def near(found: torch.Tensor, wanted: torch.Tensor, relative: float) -> None:
    """Fails where ``found`` is further from ``wanted`` than ``relative`` of its size."""
    found, wanted = found.double().cpu(), wanted.double().cpu()
    assert found.shape == wanted.shape
    off = float((found - wanted).norm() / wanted.norm())
    assert off <= relative, f"off by {off:.3g} of its size"
