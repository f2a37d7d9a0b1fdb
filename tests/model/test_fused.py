"""The fused step against the usual forward, its twin."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch

from chatkv.engine.compute import build
from chatkv.engine.runner import Part, Runner
from chatkv.model import fused
from chatkv.model.config import DecoderConfig
from chatkv.model.fused import MAX_ROWS, FusedStep
from chatkv.model.linear import Linear
from chatkv.model.native_operators import NativeOperators
from chatkv.native.library import Kernels
from tests.model.tiny import reference, save
from tests.native.kernels import native, variants

_BLOCK = 16


def save_fitting(name: str, folder: Path) -> None:
    reference(name, hidden_size=96, intermediate_size=160, head_dim=32).save_pretrained(folder)


def runner(folder: Path, kernels: Kernels | None = None) -> Runner:
    native(torch.bfloat16)
    compute = build(folder, "int8", "auto")
    decoder = compute.decoder
    assert decoder.fused is not None
    if kernels is not None:
        operators = NativeOperators(decoder.config, kernels)
        decoder.fused = FusedStep(decoder.config, decoder.weights, operators, "int8")
    return Runner(decoder, compute.backend, 64, _BLOCK)


def part(seed: int, start: int, new: int, rows: int, vocab: int) -> Part:
    """``new`` tokens behind ``start`` cached ones, in blocks of their own."""
    ids = np.random.default_rng(seed).integers(0, vocab, new).astype(np.int32)
    blocks = np.arange(seed * 20, seed * 20 + -(-(start + new) // _BLOCK), dtype=np.int32)
    return Part(ids, start, blocks, rows)


CASES = [
    [(0, 100, 1, 1)],
    [(0, 0, 1, 1), (1, 299, 1, 1), (2, 15, 1, 1)],
    [(0, 0, 20, 1)],
    [(0, 130, MAX_ROWS, MAX_ROWS)],
    [(0, 40, 17, 5), (1, 33, 3, 0), (2, 64, 1, 1)],
    [(0, 16, 5, 0)],
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["llama", "qwen3", "llama-biases"])
def test_equals_the_usual_forward(case: list[tuple[int, int, int, int]], name: str, tmp_path: Path) -> None:
    save_fitting(name, tmp_path)
    for kernels in variants(torch.bfloat16):
        own = runner(tmp_path, kernels)
        vocab = own.decoder.config.vocab
        for seed, start, _, _ in case:
            if start:
                own.forward([part(seed, 0, start, 0, vocab)], own.kv)
        parts = [part(*one, vocab) for one in case]
        kv, reference_kv = own.kv.clone(), own.kv.clone()
        got = own.forward(parts, kv)
        own.decoder.fused = None
        want = own.forward(parts, reference_kv)
        assert got.shape == want.shape
        # The twin rounds to bf16 behind every operator, and its weights are not packed.
        assert apart(kv, reference_kv) < 0.04
        assert not len(want) or apart(got, want) < 0.04


def test_threads_and_cores_don_t_change_the_result(tmp_path: Path) -> None:
    """Also more threads than cores: those that wait for one take nothing away from the others' work."""
    save_fitting("llama", tmp_path)
    own = runner(tmp_path)
    vocab, before = own.decoder.config.vocab, torch.get_num_threads()
    parts = [part(*one, vocab) for one in [(0, 0, 17, 5), (1, 0, 3, 0), (2, 0, 1, 1)]]
    seen = []
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            kv = own.kv.clone()
            logits = own.forward(parts, kv)
            seen.append((logits.clone(), kv))
            for _ in range(20):
                assert torch.equal(own.forward(parts, kv), logits)
    finally:
        torch.set_num_threads(before)
    for logits, kv in seen[1:]:
        assert torch.equal(logits, seen[0][0])
        assert torch.equal(kv, seen[0][1])


def apart(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.float() - want.float()).norm() / want.float().norm())


def test_packed_codes_hold_what_was_packed(tmp_path: Path) -> None:
    save_fitting("llama", tmp_path)
    own = runner(tmp_path).decoder
    step = own.fused
    assert step is not None
    codes = torch.randint(0, 16, (48, 3, 32))
    codes[..., 0], codes[..., 1] = 0, 15
    weight = ((codes - 8) * 0.0078125).view(48, 96).to(torch.bfloat16)
    step._arena = fused.Arena(1 << 20)
    packed = step._packed(Linear(weight), 4)
    raw = np.frombuffer(ctypes.string_at(packed.codes, 3 * 3 * 320), dtype=np.uint8).reshape(3, 3, 320)
    words = raw[..., :256].copy().view(np.uint32).reshape(3, 3, 4, 16)
    for strip, group, lane, column in [(0, 0, 0, 0), (2, 1, 15, 31), (1, 2, 7, 18), (0, 1, 3, 9)]:
        word = int(words[strip, group, column // 8, lane])
        inside = column % 8
        got = word >> (inside % 2 * 16 + inside // 2 * 4) & 15
        assert got == int(codes[strip * 16 + lane, group, column])


def test_a_shape_that_does_not_fit_is_told(tmp_path: Path) -> None:
    save("llama", tmp_path)
    native(torch.bfloat16)
    assert fused.unfit(DecoderConfig.load(tmp_path)) == "hidden size 48 is no multiple of 32"
    assert build(tmp_path, "int8", "auto").decoder.fused is None


def test_what_does_not_fit_the_plan_is_refused(tmp_path: Path) -> None:
    save_fitting("llama", tmp_path)
    own = runner(tmp_path)
    with pytest.raises(ValueError, match="kv_indices"):
        own.forward([Part(np.array([1], dtype=np.int32), 0, np.array([64], dtype=np.int32), 1)], own.kv)
