"""The compiled forward of many rows against the usual one, its twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from chatkv.engine.compute import build
from chatkv.engine.runner import Part, Runner
from chatkv.kvcache.cache import blocks_for
from chatkv.model.decoder import Decoder
from chatkv.model.fused import MAX_ROWS
from tests.model.test_fused import apart
from tests.model.tiny import reference
from tests.native.kernels import native

_LINEARS = ("qkv", "output", "gate_up", "down")


def runner(folder: Path, block_size: int = 16) -> Runner:
    if native(torch.bfloat16).wide is None:
        pytest.skip("this CPU has no AMX")
    compute = build(folder, "int8", "auto")
    assert compute.decoder.wide is not None
    return Runner(compute.decoder, compute.backend, 100 * 16 // block_size, block_size)


def save_fitting(name: str, folder: Path, **sizes: int) -> None:
    fitting = {"hidden_size": 96, "intermediate_size": 160, "head_dim": 32} | sizes
    reference(name, **fitting).save_pretrained(folder)


# Of each request: cached tokens, new ones, and of how many of these the logits are wanted.
CASES = [
    [(0, 33, 1)],
    [(0, 1000, 1)],
    [(200, 100, 40)],
    [(40, 50, 5), (33, 3, 0), (64, 1, 1), (299, 1, 1)],
    [(16, 64, 0)],
    [(7 + i, 1, 1) for i in range(40)],
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["llama", "qwen3", "llama-biases"])
def test_equals_the_usual_forward(case: list[tuple[int, int, int]], name: str, tmp_path: Path) -> None:
    save_fitting(name, tmp_path)
    compare(runner(tmp_path), case)


@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize(("name", "heads", "kv_heads"), [("llama", 9, 3), ("llama-tied-one-kv-head", 7, 1)])
def test_at_other_shapes(name: str, heads: int, kv_heads: int, block_size: int, tmp_path: Path) -> None:
    shape = {"intermediate_size": 96, "num_attention_heads": heads, "num_key_value_heads": kv_heads}
    save_fitting(name, tmp_path, hidden_size=32 * heads, **shape)
    compare(runner(tmp_path, block_size), [(30, 61, 2), (5, 1, 1)])


def compare(own: Runner, case: list[tuple[int, int, int]]) -> None:
    decoder, cached, parts = own.decoder, [], []
    generator = np.random.default_rng(5)
    free = generator.permutation(own.kv.shape[1]).astype(np.int32)
    for start, new, rows in case:
        ids = generator.integers(0, decoder.config.vocab, start + new).astype(np.int32)
        blocks, free = np.split(free, [blocks_for(start + new, own.block_size)])
        if start:
            cached.append(Part(ids[:start], 0, blocks[: blocks_for(start, own.block_size)], 0))
        parts.append(Part(ids[start:], start, blocks, rows))
    assert sum(len(one.ids) for one in parts) > MAX_ROWS
    if cached:
        own.forward(cached, own.kv)
    kv, reference_kv = own.kv.clone(), own.kv.clone()
    got = own.forward(parts, kv)
    decoder.wide = None
    want = own.forward(parts, reference_kv)
    assert got.shape == want.shape
    # The twin rounds to bf16 behind every operator.
    assert apart(kv, reference_kv) < 0.02
    assert not len(want) or apart(got, want) < 0.04
    written, wanted = ((one != own.kv).flatten(4).any(-1) for one in (kv, reference_kv))
    assert torch.equal(written, wanted)


def test_weights_are_handed_over_and_come_back(tmp_path: Path) -> None:
    save_fitting("llama-biases", tmp_path)
    own = runner(tmp_path).decoder
    plain = Decoder.load(tmp_path, torch.bfloat16)
    for ours, theirs in zip(own.weights.layers, plain.weights.layers, strict=True):
        for name in _LINEARS:
            linear = getattr(ours, name)
            assert not isinstance(linear._weight, torch.Tensor)
            assert torch.equal(linear.weight, getattr(theirs, name).weight)
