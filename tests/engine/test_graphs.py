"""Decode steps that are captured and replayed, over FlashInfer's own wrapper classes, without a GPU.

What is fake: the graph (``fake_graphs``) and the compiled kernels. What a GPU would do is not tested by this.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.flashinfer.backend import BUCKETS, FlashInferBackend, GraphDecode
from chatkv.attention.flashinfer.rules import Heads, Limits
from chatkv.attention.torch_backend import TorchBackend
from chatkv.engine.config import EngineConfig, EngineError
from chatkv.engine.graph_start import start_graphs, wants_graphs, why_none
from chatkv.engine.graphs import DecodeGraphs, pick
from chatkv.engine.runner import Part, Runner
from chatkv.model.decoder import Decoder
from tests.attention import flashinfer_fakes
from tests.attention.flashinfer_fakes import RealFlashInfer
from tests.engine.conftest import Tiny, tiny
from tests.engine.fake_graphs import FakeGraph, Graphs, opaque
from tests.engine.rig import Rig, expected

CPU = torch.device("cpu")


@pytest.fixture
def library(real: RealFlashInfer, monkeypatch: pytest.MonkeyPatch) -> RealFlashInfer:
    """Its kernels read their metadata when they run, in a replay too."""
    monkeypatch.setattr(flashinfer_fakes, "attend", opaque(flashinfer_fakes.attend))
    return real


@pytest.fixture(scope="module", params=["llama", "llama-tied-one-kv-head"])
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A model for each decode kernel: that for groups of 3 heads, and tensor cores for one of 6."""
    return tiny(request.param, tmp_path_factory.mktemp("small"), "torch")


def backend(library: RealFlashInfer, decoder: Decoder, block_size: int) -> FlashInferBackend:
    c = decoder.config
    heads = Heads(c.num_heads, c.num_kv_heads, c.head_dim, decoder.dtype)
    limits = Limits(block_size=block_size, batch_tokens=23, requests=12, context=256)
    return FlashInferBackend(library.library, heads, CPU, limits)


def rig(library: RealFlashInfer, decoder: Decoder, block_size: int, **options: Any) -> Rig:
    options = {"max_batch_tokens": 23, "max_running": 12, "max_context": 250, **options}
    return Rig(decoder, block_size=block_size, backend=backend(library, decoder, block_size), **options)


def talk(run: Rig, seed: int) -> dict[int, list[int]]:
    """Requests that come one by one and end at different times: the number of rows changes all the time."""
    rng = random.Random(seed)
    shared = [rng.randrange(3, 97) for _ in range(11)]
    asked = {}
    for index in range(14):
        prompt = shared[: rng.randrange(12)] + [rng.randrange(3, 97) for _ in range(rng.randrange(1, 6))]
        asked[run.ask_ids(prompt, f"s{index}", max_tokens=rng.randrange(1, 12))] = prompt
        for _ in range(rng.randrange(3)):
            run.step()
    run.run()
    return asked


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_replays_give_what_eager_steps_give(library: RealFlashInfer, small: Tiny, block_size: int) -> None:
    # A pool so small that requests are preempted and prefixes evicted.
    options = {"num_blocks": {1: 50, 4: 14, 16: 6}[block_size]}
    graphs = Graphs()
    run = rig(library, small.decoder, block_size, new_graph=graphs, picks=True, **options)
    assert run.runner.graphs is not None
    plain = rig(library, small.decoder, block_size, **options)
    asked, same = talk(run, block_size), talk(plain, block_size)
    assert asked == same
    for id, prompt in asked.items():
        answer = list(run.finished[id].token_ids)
        assert answer == list(plain.finished[id].token_ids)
        assert answer == expected(small.reference, prompt, len(answer))
    happened = {type(event).__name__ for event in run.events}
    assert {"RequestPreempted", "NodeEvicted"} <= happened
    used = [graph for graph in graphs.made if graph.replays]
    assert len(used) >= 3
    # The pool never hears of the spare block.
    assert run.runner.kv.shape[1] == run.cache.num_blocks + 1
    assert run.cache.clear()
    assert run.cache.free == run.cache.num_blocks


def test_every_replay_has_a_plan_of_its_own(library: RealFlashInfer, small: Tiny) -> None:
    graphs = Graphs()
    run = rig(library, small.decoder, 4, new_graph=graphs)
    run.ask_ids([5, 6, 7], max_tokens=9)
    run.step()
    before, planned = graphs.replays, len(library.modules.planned)
    run.run()
    assert graphs.replays - before == 8
    assert len(library.modules.planned) - planned == 8


def test_siblings_fork_into_replays(library: RealFlashInfer, small: Tiny) -> None:
    graphs = Graphs()
    run = rig(library, small.decoder, 4, new_graph=graphs, picks=True)
    prompt = [9, 8, 7, 6, 5, 4]
    first = run.ask_ids(prompt, n=3, max_tokens=7)
    run.run()
    for id in range(first, first + 3):
        assert list(run.finished[id].token_ids) == expected(small.reference, prompt, 7)
    assert graphs.replays


def one_step(rng: np.random.Generator, rows: int, num_blocks: int, size: int) -> list[Part]:
    """A decode step of ``rows`` requests; prefixes are shared, the blocks written to are not."""
    own = rng.permutation(num_blocks).astype(np.int32)
    mine, shared = own[:rows], own[rows:]
    parts = []
    for row in range(rows):
        prefix = rng.permutation(shared)[: int(rng.integers(0, 4))]
        blocks = np.append(prefix, mine[row]).astype(np.int32)
        at = len(prefix) * size + int(rng.integers(0, size))
        parts.append(Part(rng.integers(3, 97, 1).astype(np.int32), at, blocks, 1))
    return parts


@pytest.mark.parametrize("size", [1, 3, 16])
def test_padded_rows_never_change_a_live_block(library: RealFlashInfer, small: Tiny, size: int) -> None:
    rng = np.random.default_rng(size)
    blocks, decoder = 24, small.decoder
    runner = Runner(decoder, backend(library, decoder, size), blocks, size, spare=True)
    start_graphs(runner, Graphs(), requests=12, context=size * 6, progress=lambda stage, fraction: None)
    plain = Runner(decoder, TorchBackend(), blocks, size)
    with torch.inference_mode():
        plain.kv.normal_()
        runner.kv[:, :blocks] = plain.kv
    for _ in range(25):
        before = runner.kv[:, :blocks].clone()
        parts = one_step(rng, int(rng.integers(1, 13)), blocks, size)
        found = runner.forward(parts, runner.kv)
        assert torch.allclose(found, plain.forward(parts, plain.kv), atol=1e-4)
        assert torch.allclose(runner.kv[:, :blocks], plain.kv, atol=1e-5)
        # Bit by bit: nothing but the slots of these requests.
        for part in parts:
            slot = part.blocks[part.start // size], part.start % size
            before[:, slot[0], :, slot[1]] = runner.kv[:, slot[0], :, slot[1]]
        assert torch.equal(before, runner.kv[:, :blocks])
    assert runner.kv[:, blocks].any(), "padded rows wrote somewhere"


def decode(rows: int, pages: int, block: int = 0) -> PagedBatch:
    steps = np.arange(rows + 1, dtype=np.int32)
    indices = np.full(rows * pages, block, dtype=np.int32)
    return PagedBatch(steps, steps * np.int32(pages), indices, np.ones(rows, dtype=np.int32), 4)


def test_a_step_that_no_graph_takes_is_left(library: RealFlashInfer, small: Tiny) -> None:
    decoder = small.decoder
    kv = decoder.new_kv(9, 4)
    graphs = DecodeGraphs(decoder, backend(library, decoder, 4), kv, Graphs(), requests=3, context=12)
    zeros = np.zeros(4, dtype=np.int64)
    assert graphs.rows == 0
    assert graphs.run(decode(1, 1), zeros[:1], zeros[:1], zeros[:1]) is None
    graphs.capture(lambda stage, fraction: None)
    assert graphs.rows == 4
    answered = graphs.run(decode(3, 3), zeros[:3], zeros[:3], zeros[:3])
    assert answered is not None
    assert answered.logits.shape == (3, 97)
    assert torch.equal(answered.picks, answered.logits.argmax(-1))  # type: ignore[arg-type]
    assert graphs.run(decode(5, 1), *[np.zeros(5, dtype=np.int64)] * 3) is None  # too many rows
    assert graphs.run(decode(4, 4), zeros, zeros, zeros) is None  # too many blocks
    with pytest.raises(ValueError, match=r"kv_indices must lie in 0\.\.7"):
        graphs.run(decode(1, 1, 8), zeros[:1], zeros[:1], zeros[:1])  # the spare one is nobody's


def test_more_requests_than_the_largest_graph_are_computed_eagerly(
    library: RealFlashInfer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatkv.engine.graphs.BUCKETS", (1, 2))
    monkeypatch.setattr("chatkv.attention.flashinfer.backend.BUCKETS", (1, 2))
    small = tiny("llama", tmp_path, "torch")
    graphs = Graphs()
    run = rig(library, small.decoder, 4, new_graph=graphs, num_blocks=64)
    assert len(graphs.made) == 2
    prompts = {run.ask_ids([n, n + 1], f"s{n}", max_tokens=8 - n): [n, n + 1] for n in range(3, 7)}
    run.run()
    for id, prompt in prompts.items():
        answer = list(run.finished[id].token_ids)
        assert answer == expected(small.reference, prompt, len(answer))
    assert graphs.replays == 1 + 1  # of the steps with four, three, two and one request the last two


def test_what_can_not_be_captured_is_computed_eagerly(library: RealFlashInfer, small: Tiny) -> None:
    graphs = Graphs(fail_at=2)
    run = rig(library, small.decoder, 4, new_graph=graphs)
    assert run.runner.graphs is None
    assert run.graph_note == (
        "without CUDA graphs, because a decode step can't be captured: "
        "operation not permitted when stream is capturing"
    )
    assert list(run.answer([5, 6, 7], max_tokens=6).token_ids) == expected(small.reference, [5, 6, 7], 6)
    assert graphs.replays == 0


class Deaf(FakeGraph):
    """Replays what it has recorded without reading its inputs anew."""

    def replay(self) -> None:
        self.replays += 1


def test_a_graph_whose_numbers_are_wrong_is_not_used(library: RealFlashInfer, small: Tiny) -> None:
    run = rig(library, small.decoder, 4, new_graph=Deaf)
    assert run.runner.graphs is None
    said = "without CUDA graphs, because a decode step can't be captured: a replay of 16 rows is off by"
    assert run.graph_note.startswith(said)
    assert list(run.answer([5, 6, 7], max_tokens=6).token_ids) == expected(small.reference, [5, 6, 7], 6)


def test_a_plan_that_fails_ends_no_request_and_is_told_once(
    library: RealFlashInfer, small: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs, plan = Graphs(), GraphDecode.plan
    tried: list[int] = []

    def overflow(attention: GraphDecode, batch: PagedBatch) -> None:
        if attention.rows < 4:
            return plan(attention, batch)
        tried.append(attention.rows)
        raise RuntimeError("Buffer overflow when allocating memory for batch_prefill_tmp_v with size 1")

    run = rig(library, small.decoder, 4, new_graph=graphs)
    monkeypatch.setattr(GraphDecode, "plan", overflow)
    prompts = {run.ask_ids([n, n + 1], f"s{n}", max_tokens=9 - n): [n, n + 1] for n in range(3, 8)}
    run.run()
    for id, prompt in prompts.items():
        answer = list(run.finished[id].token_ids)
        assert answer == expected(small.reference, prompt, len(answer))
    assert tried == [8, 4]  # each of these once, though more steps would have fit
    assert run.notes == [
        "some steps go without CUDA graphs, and are slower: a plan for 8 rows failed: "
        "Buffer overflow when allocating memory for batch_prefill_tmp_v with size 1"
    ]
    assert graphs.replays == 2  # the others are replayed as before


def test_a_malformed_step_is_no_fault_of_its_graph(library: RealFlashInfer, small: Tiny) -> None:
    decoder = small.decoder
    kv = decoder.new_kv(9, 4)
    told: list[str] = []
    graphs = DecodeGraphs(
        decoder, backend(library, decoder, 4), kv, Graphs(), requests=2, context=12, tell=told.append
    )
    graphs.capture(lambda stage, fraction: None)
    zeros = np.zeros(1, dtype=np.int64)
    with pytest.raises(ValueError, match="last_page_len must lie in"):
        graphs.run(replace(decode(1, 1), last_page_len=np.array([5], dtype=np.int32)), zeros, zeros, zeros)
    assert graphs.run(decode(1, 1), zeros, zeros, zeros) is not None
    assert told == []
    for _ in range(2):
        assert graphs.run(decode(1, 9), zeros, zeros, zeros) is None
    assert told == [
        "some steps go without CUDA graphs, and are slower: 1 requests with 9 blocks are more than they hold"
    ]


def test_a_capture_that_broke_the_gpu_ends_the_start(
    library: RealFlashInfer, small: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(device: torch.device) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr("chatkv.engine.graph_start._settle", broken)
    with pytest.raises(EngineError, match=r"broke cpu \(CUDA error: an illegal.*use --no-cuda-graphs"):
        rig(library, small.decoder, 4, new_graph=Graphs())


def test_progress_and_note(library: RealFlashInfer, small: Tiny) -> None:
    graphs = Graphs()
    run = rig(library, small.decoder, 4, new_graph=graphs, max_running=5)
    assert [stage for stage, _ in run.stages] == ["capturing CUDA graphs"] * 4
    assert [fraction for _, fraction in run.stages] == [0, 0.25, 0.5, 0.75]
    assert run.graph_note.startswith("steps in which all requests decode, at most 8,")
    assert BUCKETS[:4] == (1, 2, 4, 8)


def test_who_gets_graphs(library: RealFlashInfer, small: Tiny) -> None:
    flash, gpu = backend(library, small.decoder, 4), torch.device("cuda:0")
    assert wants_graphs(EngineConfig(), flash, gpu)
    assert not wants_graphs(EngineConfig(cuda_graphs=False), flash, gpu)
    assert not wants_graphs(EngineConfig(), flash, CPU)
    assert not wants_graphs(EngineConfig(), TorchBackend(), gpu)
    assert why_none(EngineConfig(), flash) is None
    flash.no_graphs = "its numbers are wrong"
    assert not wants_graphs(EngineConfig(), flash, gpu)
    assert why_none(EngineConfig(), flash) == "without CUDA graphs, because its numbers are wrong"
    assert why_none(EngineConfig(cuda_graphs=False), flash) is None  # nobody wants any
    assert why_none(EngineConfig(), TorchBackend()) is None


def test_the_fake_refuses_what_a_capture_would() -> None:
    numbers, out = torch.ones(3), torch.zeros(3)
    graph = FakeGraph()
    with pytest.raises(RuntimeError, match="waits for the device"):
        graph.capture(lambda: out.fill_(int(numbers.sum())))
    with pytest.raises(RuntimeError, match="waits for the device"):
        graph.capture(lambda: out.copy_(torch.where(numbers > 0, 1.0, out)))  # its number is copied
    graph, scale = FakeGraph(), 2.0
    graph.capture(lambda: out.copy_(numbers * scale))
    numbers.fill_(5)
    scale = 3.0  # the host's number is as it was
    graph.replay()
    assert out.tolist() == [10, 10, 10]


def test_pick_is_the_samplers_choice() -> None:
    logits = torch.tensor([[1.0, 3, 3], [-5, -torch.inf, -6], [1, torch.nan, torch.inf]])
    assert pick(logits).tolist() == [1, 0, -1]
    rows = torch.randn(50, 97).mul(3).round()  # many equal ones
    assert pick(rows).tolist() == [int(row.argmax()) for row in rows]
    assert pick(torch.zeros(0, 97)).shape == (0,)
