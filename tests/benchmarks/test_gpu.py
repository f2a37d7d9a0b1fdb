"""``python -m benchmarks gpu``: arithmetic, and a whole run on the CPU. Figures of a GPU are not tested."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.__main__ import run as measure
from benchmarks.gpu import command, speed_run
from benchmarks.gpu.command import HEADS, decode_row, show
from benchmarks.gpu.device_time import attention_seconds, device_seconds, kernel_seconds
from benchmarks.gpu.no_tokenizer import NoTokenizer
from benchmarks.gpu.roofline import best_seconds, copy_bandwidth, share, step_bytes, weight_bytes
from benchmarks.gpu.shapes import SHAPES, random_weights
from benchmarks.gpu.speed import ASKED_MORE, WARM_UP, Bench, DecodeSpeed, Speed
from chatkv.attention.flashinfer.backend import FlashInferBackend
from chatkv.attention.flashinfer.rules import Heads, Limits
from chatkv.errors import ChatkvError, UsageError
from chatkv.model.decoder import Decoder
from chatkv.model.quantise import pack, unusable
from tests.attention import flashinfer_fakes
from tests.attention.flashinfer_fakes import RealFlashInfer
from tests.engine.fake_graphs import Graphs, opaque
from tests.engine.rig import Rig

TINY = SHAPES["tiny"]
SMALL = Speed(batches=(1, 3), context=20, steps=5, prompt=40, rounds=2)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return Decoder(TINY, random_weights(TINY, torch.float32, "cpu"))


def test_bytes_of_a_step(decoder: Decoder) -> None:
    # By hand: q and o 256x256, k and v 128x256 each, three of 512x256, two norms of 256, twice; head; norm.
    layer = 2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256 + 2 * 256
    weights = 4 * (2 * layer + 1024 * 256 + 256)
    assert weight_bytes(decoder.weights) == weights
    # K and V of 2 layers, 2 heads of 64, in fp32.
    assert step_bytes(decoder, [10, 5]) == weights + 15 * 2 * 2 * 2 * 64 * 4


def test_packed_weights_are_counted_as_what_is_read() -> None:
    if unusable("int8"):
        pytest.skip("no int8 products on this CPU")
    plain = random_weights(TINY, torch.bfloat16, "cpu")
    assert weight_bytes(pack(plain, "int8")) < 0.6 * weight_bytes(plain)


def test_the_shapes_have_as_many_weights_as_their_names_say() -> None:
    assert tuple(SHAPES) == command.SHAPES
    for name, billions in (("7b", 6.74), ("8b", 8.03)):
        weights = random_weights(SHAPES[name], torch.bfloat16, "meta")
        read = weight_bytes(weights) + weights.embedding.nbytes
        assert read / 2 / 1e9 == pytest.approx(billions, abs=0.01)


def test_share_of_the_roofline() -> None:
    assert share(14e9, 0.010, 2e12) == pytest.approx(0.7)
    assert copy_bandwidth(torch.device("cpu"), 1 << 20) > 1e6
    calls: list[int] = []
    assert best_seconds(lambda: calls.append(1), torch.device("cpu"), 4) >= 0
    assert len(calls) == 4


def test_what_of_a_step_is_attention() -> None:
    kernels = {
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<…>>": 0.003,
        "_ZN10flashinfer41PersistentVariableLengthMergeStatesKernelE": 0.001,
        "nvjet_tst_128x64": 0.02,
        "Memcpy DtoH (Device -> Pinned)": 0.001,
    }
    assert attention_seconds(kernels) == pytest.approx(0.004)
    assert attention_seconds({"gemm": 1.0}) is None
    cpu, calls = torch.device("cpu"), []
    assert kernel_seconds(lambda: calls.append(1), cpu) == {}
    assert 0 < device_seconds(lambda: time.sleep(0.001), cpu, 3) < 1
    assert calls == []


@pytest.mark.parametrize("step_tokens", [10, 64, 4096])
def test_no_request_ends_before_the_last_step_is_timed(decoder: Decoder, step_tokens: int) -> None:
    speed = replace(SMALL, batches=(1, 6))
    rig = Rig(
        decoder,
        NoTokenizer(),
        num_blocks=speed.blocks(4),
        max_batch_tokens=step_tokens,
        max_running=6,
        max_context=speed.tokens,
    )
    stages: list[str] = []
    found = Bench(rig.core, rig.outbox, speed, lambda label, done, of: stages.append(label)).run()
    assert [row.batch for row in found.decode] == [1, 6]
    assert stages == ["memory", "decode 1", "decode 6", "prompts"]
    for row in found.decode:
        assert not row.graphs
        assert row.device_s is row.overhead_s is None
        assert row.tokens_per_s == pytest.approx(row.batch / row.step_s)
        assert 0 < row.outside_s < row.step_s
        assert row.roofline == pytest.approx(row.bytes_read / row.step_s / found.copy_bandwidth)
        assert row.bytes_read > found.weight_bytes
    assert found.prefill_tokens_per_s == pytest.approx(40 / found.ttft_cold_s)
    assert not rig.core.has_work
    assert rig.cache.protected == 0


def test_with_graphs_each_batch_is_measured_twice(
    real: RealFlashInfer, decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flashinfer_fakes, "attend", opaque(flashinfer_fakes.attend))
    heads = Heads(TINY.num_heads, TINY.num_kv_heads, TINY.head_dim, torch.float32)
    limits = Limits(block_size=4, batch_tokens=64, requests=3, context=200)
    backend = FlashInferBackend(real.library, heads, torch.device("cpu"), limits)
    graphs = Graphs()
    rig = Rig(
        decoder,
        NoTokenizer(),
        num_blocks=SMALL.blocks(4),
        max_running=3,
        max_context=SMALL.tokens,
        backend=backend,
        new_graph=graphs,
    )
    traced: list[int] = []

    def kernels(call: Callable[[], object], device: torch.device) -> dict[str, float]:
        before = graphs.replays
        call()
        traced.append(graphs.replays - before)
        return {"void flashinfer::BatchDecodeWithPagedKVCacheKernel<…>": 0.004, "nvjet_tst_128x64": 0.009}

    bench = Bench(rig.core, rig.outbox, SMALL, lambda *stage: None, kernels)
    found = bench.run()
    assert [(row.batch, row.graphs) for row in found.decode] == [(1, True), (1, False), (3, True), (3, False)]
    assert traced == [1, 1]  # the kernels of one replay of the step
    for row in found.decode:
        assert (row.overhead_s is not None) == row.graphs
        if row.graphs:
            assert row.overhead_s == pytest.approx(row.step_s - row.device_s)
            assert row.attention_s == 0.004
            assert row.alone_s is not None
            assert 0 < row.alone_s < row.device_s  # type: ignore[operator]
            assert row.times_alone == pytest.approx(0.004 / row.alone_s)
        else:
            assert row.attention_s is row.alone_s is row.times_alone is None
    assert graphs.replays > 2 * (WARM_UP + SMALL.steps)
    assert rig.core.runner.graphs is not None


def test_a_request_that_ends_early_ends_the_run(decoder: Decoder) -> None:
    rig = Rig(decoder, NoTokenizer(), num_blocks=8, block_size=4, max_context=10)
    with pytest.raises(ChatkvError, match="a measured request ended early: this prompt has 20 tokens"):
        Bench(rig.core, rig.outbox, SMALL, lambda *stage: None).run()


def test_the_kv_of_the_longest() -> None:
    speed = Speed(batches=(2,), context=100, steps=10, prompt=500)
    assert speed.tokens == 500 + ASKED_MORE + 2
    assert speed.blocks(16) == 2 * (32 + 1)
    with pytest.raises(UsageError, match="--steps must be at least 1, got 0"):
        Speed(steps=0).validate()


COMMAND = "gpu --device cpu --dtype fp32 --shape tiny --batch 1,2 --context 16 --steps 4 --prompt 24"


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert measure([*COMMAND.split(), "--json", str(tmp_path / "out.json")]) == 0
    out = capsys.readouterr().out
    assert "tiny (random weights), fp32" in out
    assert [line.split()[:2] for line in out.splitlines()[-2:]] == [["batch", "1"], ["batch", "2"]]
    figures: dict[str, Any] = json.loads((tmp_path / "out.json").read_text())
    assert figures["device"] == "cpu"
    assert figures["speed"]["batches"] == [1, 2]
    assert {"step_s", "roofline", "overhead_s", "outside_s", "graphs"} <= set(figures["decode"][0])


def test_without_a_gpu_that_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatkv.engine.devices.cuda_problem", lambda: "torch finds no GPU")
    assert measure(["gpu", "--shape", "7b"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "chatkv: --device cuda can't be had: torch finds no GPU; use --device cpu\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--batch", "1,x"], "--batch takes whole numbers"),
        (["--batch", "0"], "--batch takes whole numbers"),
        (
            ["--batch", "9", "--max-batch-tokens", "8"],
            "--batch 9 needs --max-batch-tokens of at least 25",
        ),
        (["--shape", "70b"], "--shape must be one of tiny, 7b, 8b"),
    ],
)
def test_bad_options(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure(["gpu", "--device", "cpu", *options]) == 2
    assert said in capsys.readouterr().err


def test_more_kv_than_there_is_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed_run, "free_memory", lambda device: 1 << 10)
    assert measure(COMMAND.split()) == 1
    assert "give smaller ones with --batch, --context or --prompt" in capsys.readouterr().err


def test_the_table_of_a_step_that_was_captured(capsys: pytest.CaptureFixture[str]) -> None:
    row = DecodeSpeed(64, True, 5000.0, 0.0128, 0.0001, 0.0124, 1e10, 0.8, 0.0043, 0.0042)
    again = row._replace(graphs=False, device_s=None, attention_s=None, alone_s=None)
    figures = [
        each._asdict() | {"overhead_s": each.overhead_s, "times_alone": each.times_alone}
        for each in (row, again)
    ]
    shown = decode_row(row._asdict() | {"overhead_s": row.overhead_s, "times_alone": row.times_alone})
    assert len(shown) == len(HEADS)
    assert shown[0] == "batch 64, graph"
    assert shown[4:] == ["0.400", "0.100", "4.300", "4.200", "1.02"]
    found = {
        "model": "7b (random weights)",
        "device": "NVIDIA H200",
        "attention": "flashinfer/cuda:0",
        "dtype": "bf16",
        "notes": [],
        "weight_bytes": 13e9,
        "copy_bandwidth": 4e12,
        "prefill_tokens_per_s": 1.0,
        "ttft_cold_s": 0.1,
        "ttft_cached_s": 0.1,
        "speed": {"prompt": 1024},
    }
    show(found | {"decode": figures})
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].split()[-3:] == ["alone", "ms", "times"]
    assert lines[-2].split()[-5:] == shown[4:]
    show(found | {"decode": figures[1:]})  # nothing was captured: nothing to say of it
    assert "attn" not in capsys.readouterr().out
