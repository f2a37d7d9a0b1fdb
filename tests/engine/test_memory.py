"""What the KV pool may take of a GPU's memory: all but what weights, steps and graphs need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from benchmarks.gpu.shapes import SHAPES
from chatkv.engine import loading
from chatkv.engine.config import EngineConfig, EngineError
from chatkv.engine.headroom import BASE, headroom
from chatkv.engine.loading import assemble
from chatkv.engine.outbox import Outbox
from chatkv.engine.sizing import pool_blocks
from tests.engine.conftest import Tiny
from tests.engine.rig import NumberCodec

GIB = 1 << 30
MODEL = SHAPES["8b"]
H200 = 139 * GIB - 16 * GIB
"""Bytes that are free beside the weights of 8B parameters."""


def room(config: EngineConfig, *, graphs: bool = True) -> int:
    return headroom(config, MODEL, 2, MODEL.max_position, graphs=graphs)


def test_room_grows_with_what_it_is_for() -> None:
    config = EngineConfig()
    assert BASE < room(config, graphs=False) < room(config) < 3 * GIB
    assert room(replace(config, max_batch_tokens=8192)) > room(config) + GIB
    assert room(replace(config, max_running=1)) < room(config)
    # By hand: what the answers of all graphs take in fp32, 293 rows of 128256 logits.
    assert room(config) - room(config, graphs=False) > 293 * 128256 * 4


def test_a_pool_that_is_asked_for_leaves_room() -> None:
    config = EngineConfig(kv_memory=H200 - GIB)
    block = 32 * 2 * 16 * 8 * 128 * 2
    assert pool_blocks(config, block, H200, gpu=True) == (H200 - GIB) // block
    with pytest.raises(
        EngineError, match=r"--kv-memory \d+\.0 MiB is too much, .* are free beside .* and graphs: give less"
    ):
        pool_blocks(config, block, H200, gpu=True, room=room(config))
    blocks = (H200 - room(config)) // block
    assert pool_blocks(EngineConfig(num_blocks=blocks), block, H200, gpu=True, room=room(config)) == blocks
    with pytest.raises(EngineError, match=f"give at most {blocks}$"):
        pool_blocks(EngineConfig(num_blocks=blocks + 1), block, H200, gpu=True, room=room(config))
    with pytest.raises(
        EngineError, match=r"holds no block of 16 tokens \(2.0 MiB\): 0.0 MiB are free beside"
    ):
        pool_blocks(EngineConfig(), block, GIB // 2, gpu=True, room=GIB)


class OnGpu:
    """A decoder that is taken for a GPU's."""

    def __init__(self, decoder: Any) -> None:
        self._decoder, self.device = decoder, torch.device("cuda:0")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)

    def new_kv(self, num_blocks: int, block_size: int) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.mark.parametrize(
    ("kv_memory", "said"),
    [
        (GIB - (100 << 20), "--kv-memory 924.0 MiB is too much, .* for activations, workspaces and graphs"),
        (100 << 20, "cuda:0 did not give the 99 MiB of the KV pool: use --kv-memory"),
    ],
)
def test_an_engine_on_a_gpu_says_what_does_not_fit(
    tiny_llama: Tiny, monkeypatch: pytest.MonkeyPatch, kv_memory: int, said: str
) -> None:
    monkeypatch.setattr(loading, "free_memory", lambda device: GIB)
    compute = loading.build(tiny_llama.folder, "fp32", "torch")
    object.__setattr__(compute, "decoder", OnGpu(compute.decoder))
    config = EngineConfig(kv_memory=kv_memory)
    with pytest.raises(EngineError, match=said):
        assemble(config, compute, NumberCodec(), Outbox(), lambda stage, fraction: None)  # type: ignore[arg-type]
