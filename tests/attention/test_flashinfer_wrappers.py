"""The library's own wrapper classes, planned and run by chatkv's backend, give what the torch backend gives.

They run on the CPU: only their compiled modules are replaced, by torch.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatkv.attention.base import AttentionBackend
from chatkv.attention.flashinfer.backend import FlashInferBackend, GraphDecode
from chatkv.attention.flashinfer.probe import FlashInferError, start, trial
from chatkv.attention.flashinfer.rules import Heads, Limits
from chatkv.attention.torch_backend import TorchBackend
from tests.attention.batches import Case, dense_attention, paged_batch, random_case
from tests.attention.flashinfer_fakes import RealFlashInfer

CPU = torch.device("cpu")
LENS = {
    "prefill": [(7, 7), (20, 41), (2, 40)],
    "decode": [(1, 1), (1, 16), (1, 17), (1, 40)],
    "mixed": [(1, 33), (18, 18), (1, 5), (3, 48)],
}


def backend(real: RealFlashInfer, case: Case) -> FlashInferBackend:
    heads = Heads(case.q.shape[1], case.kv.shape[3], case.q.shape[2], case.q.dtype)
    return FlashInferBackend(real.library, heads, CPU, Limits(block_size=case.batch.block_size))


def run(backend: AttentionBackend, case: Case) -> torch.Tensor:
    backend.plan(case.batch)
    return backend.run(case.q, case.kv)


@pytest.mark.parametrize("kind", LENS)
@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("heads", [(3, 3, 64), (2, 7, 64), (2, 4, 128), (1, 8, 256), (2, 1, 64)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_it_gives_what_the_torch_backend_gives(
    real: RealFlashInfer, kind: str, block_size: int, heads: tuple[int, int, int], dtype: torch.dtype
) -> None:
    kv_heads, group, head_dim = heads
    case = random_case(LENS[kind], block_size, kv_heads, group, head_dim, dtype, seed=1)
    found, wanted = run(backend(real, case), case), run(TorchBackend(), case)
    assert found.dtype == dtype
    # Both round scores, weights and results to 2^-8 (2^-11 in fp16) of their size.
    torch.testing.assert_close(found, wanted, atol=0.04, rtol=0)
    torch.testing.assert_close(found.double(), dense_attention(case), atol=0.02, rtol=0)


@pytest.mark.parametrize(
    ("group", "kind", "module"),
    [
        (3, "decode", "decode"),
        (4, "decode", "prefill"),
        (7, "decode", "prefill"),
        (3, "prefill", "prefill"),
        (7, "mixed", "prefill"),
    ],
)
def test_the_module_it_compiles(real: RealFlashInfer, group: int, kind: str, module: str) -> None:
    case = random_case(LENS[kind], 16, 2, group, 64, torch.bfloat16, seed=2)
    made = backend(real, case)
    real.modules.asked.clear()
    run(made, case)
    (asked,) = real.modules.asked
    assert asked[0] == module
    if module == "prefill":
        assert asked[1] == "fa2"
        asked = asked[1:]
    # q, kv and output dtype, the index dtype, both head sizes: part of the compiled module's name.
    assert asked[1:7] == (torch.bfloat16,) * 3 + (torch.int32, 64, 64)


def test_one_plan_serves_every_layer_and_the_next_replaces_it(real: RealFlashInfer) -> None:
    first = random_case(LENS["mixed"], 16, 3, 3, 64, torch.bfloat16, seed=3)
    second = random_case(LENS["decode"], 16, 3, 3, 64, torch.bfloat16, seed=4)
    made = backend(real, first)
    for case in (first, second, first):
        made.plan(case.batch)
        planned = len(real.modules.planned)
        for layer in range(3):
            other = replace(case, q=case.q * (layer + 1))
            torch.testing.assert_close(
                made.run(other.q, other.kv), run(TorchBackend(), other), atol=0.08, rtol=0
            )
        assert len(real.modules.planned) == planned


def test_q_may_be_a_view_into_a_wider_tensor(real: RealFlashInfer) -> None:
    case = random_case([(20, 33), (1, 9)], 16, 3, 3, 64, torch.bfloat16, seed=5)
    wide = torch.cat((case.q, torch.zeros(21, 6, 64, dtype=torch.bfloat16)), dim=1)
    made = backend(real, case)
    torch.testing.assert_close(run(made, replace(case, q=wide[:, :9])), run(made, case))
    scattered = case.q.transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(run(made, replace(case, q=scattered)), run(made, case))


def requests(case: Case, block_size: int, order: list[int], spread: int, seed: int) -> Case:
    """The same requests in another order, over blocks of another size, scattered over a pool."""
    q_lens, kv_lens = case.batch.q_lens[order].tolist(), case.batch.kv_lens[order].tolist()
    pages = [-(-n // block_size) for n in kv_lens]
    free = np.random.default_rng(seed).permutation(sum(pages) + spread).tolist()
    kv = torch.full((len(free), 2, block_size, *case.kv.shape[3:]), 1e4, dtype=case.kv.dtype)
    tables = []
    for request, count in zip(order, pages, strict=True):
        table, free = free[:count], free[count:]
        for position, (k, v) in enumerate(zip(*case.dense[request], strict=True)):
            block, offset = table[position // block_size], position % block_size
            kv[block, 0, offset], kv[block, 1, offset] = k, v
        tables.append(table)
    starts = case.batch.qo_indptr
    q = torch.cat([case.q[starts[b] : starts[b + 1]] for b in order])
    return Case(paged_batch(tables, q_lens, kv_lens, block_size), q, kv, [case.dense[b] for b in order])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_split_and_order_of_blocks_gives_the_same(real: RealFlashInfer, data: st.DataObject) -> None:
    totals = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    lens = [(data.draw(st.integers(1, n)), n) for n in totals]
    case = random_case(lens, 16, 2, data.draw(st.sampled_from([3, 7, 4])), 64, torch.bfloat16, seed=6)
    wanted = run(backend(real, case), case)
    order = data.draw(st.permutations(range(len(lens))))
    size = data.draw(st.sampled_from([1, 16, 5]))
    other = requests(
        case, size, list(order), data.draw(st.integers(0, 9)), seed=data.draw(st.integers(0, 99))
    )
    found = run(backend(real, other), other)
    starts = case.batch.qo_indptr
    wanted = torch.cat([wanted[starts[b] : starts[b + 1]] for b in order])
    torch.testing.assert_close(found, wanted, atol=2**-7, rtol=2**-7)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.sets(st.integers(1, 49), max_size=5), size=st.sampled_from([1, 16, 3]))
def test_a_prompt_in_any_chunks_gives_the_rows_of_the_whole(
    real: RealFlashInfer, cuts: set[int], size: int
) -> None:
    case = random_case([(50, 50)], size, 3, 3, 64, torch.bfloat16, seed=7)
    made = backend(real, case)
    whole, table = run(made, case), case.batch.kv_indices.tolist()
    edges = [0, *sorted(cuts), 50]
    for begin, end in pairwise(edges):
        part = replace(case, q=case.q[begin:end], batch=paged_batch([table], [end - begin], [end], size))
        torch.testing.assert_close(run(made, part), whole[begin:end], atol=2**-7, rtol=2**-7)


def test_no_call_is_one_the_library_warns_of(real: RealFlashInfer) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in LENS:
            case = random_case(LENS[kind], 16, 2, 7, 64, torch.bfloat16, seed=8)
            run(backend(real, case), case)


def test_a_graphs_padded_rows_change_nothing(real: RealFlashInfer) -> None:
    for group in (3, 7):
        case = random_case([(1, 40), (1, 16), (1, 3)], 16, 2, group, 64, torch.bfloat16, seed=9)
        eager = backend(real, case)
        graph = eager.graph(8, 64)
        q = torch.cat((case.q, torch.randn(5, *case.q.shape[1:]).to(torch.bfloat16)))
        for _ in range(2):  # planned again before each replay
            graph.plan(case.batch)
            found = graph.run(q, case.kv)
            torch.testing.assert_close(found[:3], run(eager, case))
        longer = random_case([(1, 41), (1, 17)], 16, 2, group, 64, torch.bfloat16, seed=10)
        graph.plan(longer.batch)
        found = graph.run(torch.cat((longer.q, q[:6])), longer.kv)
        torch.testing.assert_close(found[:2], run(eager, longer))


def test_a_backend_proves_itself_before_it_is_taken(real: RealFlashInfer) -> None:
    heads = Heads(14, 2, 64, torch.bfloat16)
    for size in (1, 16):
        assert isinstance(start(heads, CPU, (9, 0), Limits(block_size=size)), FlashInferBackend)
    made = FlashInferBackend(real.library, heads, CPU)
    for wrong in (0.5, float("nan")):
        real.modules.wrong = wrong
        assert "numbers are wrong here: a prefill step" in str(trial(made, heads, CPU, 16))


def test_a_step_of_a_graph_is_tried_and_alone_given_up(
    real: RealFlashInfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = Heads(14, 2, 64, torch.bfloat16)
    assert start(heads, CPU, (9, 0), Limits()).no_graphs == ""
    run = GraphDecode.run
    monkeypatch.setattr(GraphDecode, "run", lambda *args: run(*args) + 0.5)
    made = start(heads, CPU, (9, 0), Limits())
    said = "FlashInfer can't decode for them: its numbers are wrong here: a decode step of a graph was off"
    assert made.no_graphs.startswith(said)
    monkeypatch.setattr(GraphDecode, "run", lambda *args: 1 / 0)
    assert start(heads, CPU, (9, 0), Limits()).no_graphs.endswith("for them: division by zero")
    # Where nothing can be computed any more it is no matter of graphs alone.
    zeros = torch.zeros

    def broken(*size: int, **options: object) -> torch.Tensor:
        if size == (1,):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return zeros(*size, **options)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(torch, "zeros", broken)
    with pytest.raises(FlashInferError, match="a graph's step broke the device: CUDA error: an illegal"):
        start(heads, CPU, (9, 0), Limits())
