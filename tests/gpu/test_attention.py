"""FlashInfer's kernels against attention in double precision: every shape, eager and in a graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from chatkv.attention.flashinfer.probe import graph_trial, trial
from chatkv.attention.flashinfer.rules import Heads
from chatkv.attention.torch_backend import TorchBackend
from tests.attention.batches import Case, dense_attention, random_case
from tests.gpu.conftest import Machine, near

pytestmark = pytest.mark.gpu

LENS = {
    "prefill": [(7, 7), (200, 410), (2, 40)],
    "decode": [(1, 1), (1, 16), (1, 17), (1, 900)],
    "mixed": [(1, 330), (180, 180), (1, 5), (3, 48)],
}
HEADS = [(3, 3, 64), (2, 7, 64), (2, 1, 64), (4, 7, 128), (8, 4, 128), (1, 16, 128), (1, 8, 256), (2, 5, 64)]
"""(KV heads, query heads a KV head, head_dim)"""
RELATIVE = {torch.bfloat16: 1e-2, torch.float16: 3e-3}


def heads_of(case: Case) -> Heads:
    return Heads(case.q.shape[1], case.kv.shape[3], case.q.shape[2], case.q.dtype)


def on(machine: Machine, case: Case) -> Case:
    return replace(case, q=case.q.to(machine.device), kv=case.kv.to(machine.device))


@pytest.mark.parametrize("dtype", RELATIVE, ids=["bf16", "fp16"])
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("block_size", [1, 3, 16, 64])
@pytest.mark.parametrize("kind", LENS)
def test_attention_is_near_double_precision(
    machine: Machine, kind: str, block_size: int, heads: tuple[int, int, int], dtype: torch.dtype
) -> None:
    kv_heads, group, head_dim = heads
    case = random_case(LENS[kind], block_size, kv_heads, group, head_dim, dtype, seed=1)
    wanted = dense_attention(case)
    case = on(machine, case)
    backend = machine.backend(heads_of(case), block_size=block_size, batch_tokens=512, context=1024)
    backend.plan(case.batch)
    near(backend.run(case.q, case.kv), wanted, RELATIVE[dtype])
    reference = TorchBackend(machine.device)
    reference.plan(case.batch)
    near(reference.run(case.q, case.kv), wanted, RELATIVE[dtype])


@pytest.mark.parametrize("heads", [(3, 3, 64), (2, 7, 64), (8, 4, 128)], ids=str)
@pytest.mark.parametrize("block_size", [1, 16])
def test_a_graph_that_is_planned_anew_is_right_for_every_step(
    machine: Machine, block_size: int, heads: tuple[int, int, int]
) -> None:
    kv_heads, group, head_dim = heads
    rows, blocks = 8, 4000 // block_size
    shape = Heads(kv_heads * group, kv_heads, head_dim, torch.bfloat16)
    backend = machine.backend(shape, block_size=block_size, batch_tokens=64, requests=rows, context=2048)
    attention = backend.graph(rows, rows * -(-2048 // block_size))
    q = torch.zeros(rows, shape.heads, head_dim, dtype=torch.bfloat16, device=machine.device)
    kv = torch.zeros(blocks, 2, block_size, kv_heads, head_dim, dtype=torch.bfloat16, device=machine.device)
    out: list[torch.Tensor] = []
    graph = machine.new_graph()
    captured = False
    for seed, lens in enumerate([[5, 70], [1], [900, 3, 64, 65, 1, 2, 17, 300], [2000], [40] * 6]):
        case = random_case([(1, n) for n in lens], block_size, kv_heads, group, head_dim, q.dtype, seed)
        q[: len(lens)] = case.q.to(machine.device)
        kv[: len(case.kv)] = case.kv.to(machine.device)
        attention.plan(case.batch)
        if not captured:
            graph.capture(lambda: out.append(attention.run(q, kv)))
            captured = True
        graph.replay()
        near(out[-1][: len(lens)], dense_attention(case), 1e-2)


def test_the_trial_at_the_start_passes(machine: Machine) -> None:
    for group, head_dim in ((3, 64), (7, 128)):
        heads = Heads(3 * group, 3, head_dim, torch.bfloat16)
        for size in (1, 16):
            made = machine.backend(heads, block_size=size)
            assert trial(made, heads, machine.device, size) is None
            assert graph_trial(made, heads, machine.device, size) is None
