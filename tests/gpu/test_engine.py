"""The engine on a GPU: logits and greedy text, with graphs and without, under load, for a long time.

In bf16 two likeliest tokens may be so near each other that rounding decides. A greedy token counts as right
where the reference, which computes in fp32, gives it a logit hardly under its own largest.
"""

from __future__ import annotations

import random
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from chatkv.attention.torch_backend import TorchBackend
from chatkv.engine.config import EngineConfig
from chatkv.engine.graphs import Rows, pick
from chatkv.engine.loading import load
from chatkv.engine.messages import GenerateRequest, Sampling, Turn
from chatkv.engine.outbox import Outbox
from chatkv.engine.readback import Readback
from chatkv.engine.runner import Part, Runner
from tests.engine.rig import Rig
from tests.gpu.conftest import Machine, heads_of, near
from tests.model.tiny import full_logits, reference

pytestmark = pytest.mark.gpu

LOGITS = {torch.float16: 0.01, torch.bfloat16: 0.08}
"""Of their size; errors of 30 layers add up. With torch's attention on a CPU they are 0.004 and 0.053."""
MARGIN = 0.02
"""Of a row's range of logits."""


@pytest.fixture(scope="session")
def smollm2(smollm2_folder: Path) -> transformers.PreTrainedModel:
    model = transformers.AutoModelForCausalLM.from_pretrained(smollm2_folder, dtype=torch.float32)
    return model.eval()


class Small:
    """A random model that FlashInfer serves, its reference, and how to check an answer."""

    def __init__(self, machine: Machine, folder: Path, **sizes: int) -> None:
        self.reference = reference("llama", head_dim=64, max_position_embeddings=512, **sizes)
        self.reference.save_pretrained(folder)
        self.machine = machine
        self.decoder = machine.decoder(folder)

    def rig(self, *, graphs: bool, block_size: int = 4, **options: Any) -> Rig:
        backend = self.machine.backend(
            heads_of(self.decoder), block_size=block_size, batch_tokens=64, requests=16, context=512
        )
        new_graph = self.machine.new_graph if graphs else None
        options = {"max_running": 16, "max_context": 500, **options}
        rig = Rig(self.decoder, block_size=block_size, backend=backend, new_graph=new_graph, **options)
        assert (rig.runner.graphs is not None) == graphs
        return rig


@pytest.fixture(scope="session", params=[2, 1], ids=["cuda-cores", "tensor-cores"])
def small(
    request: pytest.FixtureRequest, machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> Small:
    """6 query heads on 2 KV heads or on 1: one decode kernel each."""
    return Small(machine, tmp_path_factory.mktemp("small"), num_key_value_heads=request.param)


def check_greedy(model: transformers.PreTrainedModel, prompt: Sequence[int], answer: Sequence[int]) -> None:
    """Each token of ``answer`` is one that the reference could have taken there."""
    logits = full_logits(model, [*prompt, *answer[:-1]])[len(prompt) - 1 :]
    best, worst = logits.amax(-1), logits.amin(-1)
    taken = logits.gather(1, torch.tensor(answer)[:, None])[:, 0]
    behind = (best - taken) / (best - worst)
    assert float(behind.max()) <= MARGIN, f"token {int(behind.argmax())} is {float(behind.max()):.3g} behind"


def step(runner: Runner, ids: list[int], start: int, size: int) -> torch.Tensor:
    """All logits of ``ids``, which stand at ``start`` in a sequence over the blocks from 1 on."""
    blocks = np.arange(1, 1 + -(-(start + len(ids)) // size), dtype=np.int32)
    return runner.forward([Part(np.array(ids, dtype=np.int32), start, blocks, len(ids))], runner.kv)


@pytest.mark.model
@pytest.mark.parametrize("dtype", LOGITS, ids=["fp16", "bf16"])
@pytest.mark.parametrize("block_size", [1, 16])
def test_logits_are_those_of_torch_and_transformers(
    machine: Machine,
    smollm2: transformers.PreTrainedModel,
    smollm2_folder: Path,
    block_size: int,
    dtype: torch.dtype,
) -> None:
    decoder = machine.decoder(smollm2_folder, dtype)
    ids = [random.Random(1).randrange(3, 40000) for _ in range(90)]
    wanted = full_logits(smollm2, ids)
    flash = machine.backend(heads_of(decoder), block_size=block_size, batch_tokens=128, context=256)
    for backend in (flash, TorchBackend(machine.device)):
        runner = Runner(decoder, backend, 128, block_size)
        # A chunk, a chunk behind it, and tokens one by one.
        parts = [step(runner, ids[a:b], a, block_size) for a, b in ((0, 37), (37, 80))]
        parts += [step(runner, ids[i : i + 1], i, block_size) for i in range(80, 90)]
        near(torch.cat(parts), wanted, LOGITS[dtype])


@pytest.mark.model
@pytest.mark.parametrize("graphs", [True, False], ids=["graphs", "eager"])
def test_greedy_text_is_transformers_own(
    smollm2: transformers.PreTrainedModel, machine: Machine, graphs: bool
) -> None:
    outbox = Outbox()
    config = EngineConfig(
        device=str(machine.device), attention="flashinfer", cuda_graphs=graphs, num_blocks=400
    )
    core, ready = load(config, outbox, lambda stage, fraction: None)
    assert ready.attention == f"flashinfer/{machine.device}"
    assert any("replayed as CUDA graphs" in note for note in ready.notes) == graphs
    questions = ["What is the capital of France?", "Count to ten.", "Why is the sky blue?"]
    for id, text in enumerate(questions, start=1):
        core.add(id, GenerateRequest(f"s{id}", (Turn("user", text),), Sampling(max_tokens=40)), 0.0)
    while core.has_work:
        core.step()
        core.cache.check_integrity()
    batch = outbox.drain()
    assert batch is not None
    answers = {done.request: done for done in batch.finished}
    for id, text in enumerate(questions, start=1):
        assert answers[id].reason in ("stop", "length")
        check_greedy(smollm2, core.codec.encode_chat([Turn("user", text)]), answers[id].token_ids)


@pytest.mark.parametrize("graphs", [True, False], ids=["graphs", "eager"])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_eviction_and_preemption_under_load(small: Small, graphs: bool, block_size: int) -> None:
    run = small.rig(graphs=graphs, block_size=block_size, num_blocks=224 // block_size)
    rng = random.Random(block_size)
    shared = [rng.randrange(3, 97) for _ in range(20)]
    asked = {}
    for index in range(60):
        prompt = shared[: rng.randrange(21)] + [rng.randrange(3, 97) for _ in range(rng.randrange(1, 20))]
        asked[run.ask_ids(prompt, f"s{index}", max_tokens=rng.randrange(1, 25))] = prompt
        for _ in range(rng.randrange(3)):
            run.step()
    run.run()
    for id, prompt in asked.items():
        assert run.finished[id].reason == "length"
        check_greedy(small.reference, prompt, run.finished[id].token_ids)
    happened = {type(event).__name__ for event in run.events}
    assert {"RequestPreempted", "NodeEvicted"} <= happened


def test_ten_thousand_requests_leave_nothing_behind(small: Small) -> None:
    requests = 10_000
    run = small.rig(graphs=True, num_blocks=96, max_batch_tokens=64)
    rng = random.Random(3)
    seen: dict[int, tuple[int, int]] = {}
    ended = 0
    for index in range(requests):
        prompt = [rng.randrange(3, 97) for _ in range(rng.randrange(1, 12))]
        run.ask_ids(prompt, f"s{index % 50}", max_tokens=rng.randrange(1, 6))
        while len(run.core.live) >= 12:
            run.step()
        if index in (requests // 10, requests - 1):
            small.machine.wait()
            seen[index] = used(small.machine)
        if index % 200 == 0:
            ended += forget(run)
    run.run()
    assert ended + forget(run) == requests
    assert run.cache.clear()
    assert run.cache.free == run.cache.num_blocks
    (device, host), (device_later, host_later) = seen.values()
    assert device_later - device < 1 << 20
    assert host_later - host < 64 << 20


def used(machine: Machine) -> tuple[int, int]:
    """Bytes of the device's and of this process's memory."""
    on_device = torch.cuda.memory_allocated(machine.device) if machine.device.type == "cuda" else 0
    return on_device, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def forget(run: Rig) -> int:
    """What a rig keeps of the requests that are over; how many there were. None of them failed."""
    assert {done.reason for done in run.finished.values()} <= {"length"}
    ended = len(run.finished)
    for id in list(run.finished):
        for kept in (run.finished, run.texts, run.thoughts, run.logprobs):
            kept.pop(id, None)
    run.events.clear()
    run.batches.clear()
    return ended


def test_rows_are_read_as_the_device_has_them(machine: Machine) -> None:
    rng, readback = random.Random(4), Readback(machine.device)
    for count in (3, 64, 1, 17):
        logits = torch.randn(count, 49152)
        on_device = Rows(logits.to(machine.device), None)
        for whole in (None, [True] * count, [False] * count, [rng.random() < 0.5 for _ in range(count)]):
            for at, row in enumerate(readback.read(on_device, whole)):
                every = whole is None or whole[at]
                assert torch.equal(row, logits[at] if every else logits[at].argmax())


def test_answers_of_all_kinds_share_steps(small: Small) -> None:
    """Greedy ones are right beside others whose logits leave the device."""
    run = small.rig(graphs=True, num_blocks=256)
    kinds: list[dict[str, Any]] = [{}, {"temperature": 0.8, "seed": 1}, {"logprobs": 3}, {"top_p": 0.5}]
    prompts = {}
    for index in range(12):
        prompt = [3 + index, 5, 7]
        prompts[run.ask_ids(prompt, f"s{index}", max_tokens=12, **kinds[index % 4])] = prompt, index % 4
    run.run()
    assert run.notes == []
    for id, (prompt, kind) in prompts.items():
        assert run.finished[id].reason == "length"
        if kind != 1:
            check_greedy(small.reference, prompt, run.finished[id].token_ids)


def test_the_likeliest_ids_are_the_cpus(machine: Machine) -> None:
    rows = torch.randn(64, 49152).mul(3).round()  # many equal ones
    rows[5, 77], rows[6, 0] = torch.nan, torch.inf
    assert pick(rows.to(machine.device)).tolist() == pick(rows).tolist()
