from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chatkv.attention.base import AttentionBackend
from chatkv.attention.native_backend import PART, NativeBackend
from chatkv.attention.torch_backend import TILE, TorchBackend
from tests.attention.batches import Case, dense_attention, paged_batch, random_case
from tests.native.kernels import native, variants

Make = Callable[[torch.dtype], AttentionBackend]


def native_backend(dtype: torch.dtype) -> AttentionBackend:
    return NativeBackend(native(dtype))


@pytest.fixture(scope="module", params=["torch", "native"])
def make(request: pytest.FixtureRequest) -> Make:
    return native_backend if request.param == "native" else lambda _: TorchBackend()


def run(make: Make, case: Case) -> torch.Tensor:
    backend = make(case.q.dtype)
    backend.plan(case.batch)
    return backend.run(case.q, case.kv)


def assert_equals_dense(make: Make, case: Case) -> None:
    out, reference = run(make, case), dense_attention(case)
    assert out.shape == case.q.shape
    assert out.dtype == case.q.dtype
    error = (out.double() - reference).abs().max().item()
    # bf16 keeps 8 bits: scores, weights and the result are each rounded to 2^-8 of their size.
    assert error < (2e-5 if case.q.dtype == torch.float32 else 0.04), error


@st.composite
def lengths(draw: st.DrawFn) -> list[tuple[int, int]]:
    requests = draw(st.integers(1, 5))
    out = []
    for _ in range(requests):
        total = draw(st.integers(1, 60))
        out.append((draw(st.one_of(st.just(1), st.integers(1, total))), total))
    return out


@settings(max_examples=60, deadline=None)
@given(
    lens=lengths(),
    block_size=st.sampled_from([1, 16, 7]),
    heads=st.sampled_from([(3, 3), (2, 7), (2, 4), (3, 1), (1, 3)]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 2**31),
)
def test_paged_equals_dense(
    make: Make,
    lens: list[tuple[int, int]],
    block_size: int,
    heads: tuple[int, int],
    dtype: torch.dtype,
    seed: int,
) -> None:
    assert_equals_dense(make, random_case(lens, block_size, *heads, 16, dtype, seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "lens",
    [
        [(TILE, TILE)],
        [(TILE + 1, TILE + 1)],
        [(2 * TILE + 5, 2 * TILE + 40)],
        [(1, 700), (1, 3), (TILE + 2, 300), (1, 16), (30, 31)],
    ],
)
def test_tiles_and_mixed_batches(make: Make, lens: list[tuple[int, int]], dtype: torch.dtype) -> None:
    assert_equals_dense(make, random_case(lens, 16, 3, 3, 64, dtype, 0))


@pytest.mark.parametrize("heads", [(3, 3, 64), (1, 8, 128), (2, 7, 32), (2, 1, 96), (2, 2, 80)])
def test_prefill_on_every_instruction_set(heads: tuple[int, int, int]) -> None:
    lens = [(2, 2), (300, 700), (1, 40), (33, 33), (30, 257)]
    for kernels in variants(torch.bfloat16):
        for block_size in (16, 5):
            case = random_case(lens, block_size, *heads, torch.bfloat16, 0)
            assert_equals_dense(lambda _, own=kernels: NativeBackend(own), case)  # type: ignore[misc]


def test_a_prompt_in_chunks_gives_the_rows_of_the_whole(make: Make) -> None:
    case = random_case([(50, 50)], 16, 3, 3, 64, torch.float32, 1)
    whole = run(make, case)
    table = case.batch.kv_indices.tolist()
    for start, stop in [(0, 7), (7, 8), (8, 40), (40, 50)]:
        part = replace(case, q=case.q[start:stop], batch=paged_batch([table], [stop - start], [stop], 16))
        torch.testing.assert_close(run(make, part), whole[start:stop], atol=1e-5, rtol=0)


def test_shared_blocks_serve_several_requests(make: Make) -> None:
    case = random_case([(1, 40)], 16, 3, 3, 64, torch.float32, 2)
    table = case.batch.kv_indices.tolist()
    twice = replace(
        case,
        q=case.q.repeat(2, 1, 1),
        batch=paged_batch([table, table], [1, 1], [40, 40], 16),
        dense=case.dense * 2,
    )
    assert_equals_dense(make, twice)


def test_q_may_be_a_view_into_a_wider_tensor(make: Make) -> None:
    case = random_case([(20, 33), (1, 9)], 16, 3, 3, 64, torch.float32, 3)
    wide = torch.cat((case.q, torch.zeros(21, 6, 64)), dim=1)
    torch.testing.assert_close(run(make, replace(case, q=wide[:, :9])), run(make, case))


def test_one_plan_serves_every_layer_and_the_next_replaces_it(make: Make) -> None:
    first = random_case([(5, 20), (1, 7)], 7, 3, 3, 64, torch.float32, 4)
    second = random_case([(1, 30)], 7, 3, 3, 64, torch.float32, 5)
    backend = make(torch.float32)
    for case in (first, second):
        backend.plan(case.batch)
        for _ in range(2):
            torch.testing.assert_close(
                backend.run(case.q, case.kv).double(), dense_attention(case), atol=2e-5, rtol=0
            )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"qo_indptr": np.array([0, 0, 2], dtype=np.int32)}, "qo_indptr"),
        ({"kv_indptr": np.array([0, 1, 2, 3], dtype=np.int32)}, "indptr lengths"),
        ({"kv_indices": np.array([0], dtype=np.int32)}, "kv_indices"),
        ({"kv_indices": np.array([0, -1], dtype=np.int32)}, "kv_indices"),
        ({"kv_indices": np.array([0, 1], dtype=np.int64)}, "kv_indices"),
        ({"last_page_len": np.array([4, 5], dtype=np.int32)}, "last_page_len"),
        ({"last_page_len": np.array([0, 1], dtype=np.int32)}, "last_page_len"),
        ({"qo_indptr": np.array([0, 1, 9], dtype=np.int32)}, "more query rows"),
    ],
)
def test_a_malformed_batch_is_refused_by_plan(make: Make, change: dict[str, np.ndarray], named: str) -> None:
    good = paged_batch([[0], [1]], [1, 1], [3, 2], 4)
    backend = make(torch.float32)
    with pytest.raises(ValueError, match=named):
        backend.plan(replace(good, **change))
    with pytest.raises(ValueError, match="plan"):
        backend.run(torch.zeros(2, 3, 16), torch.zeros(2, 2, 4, 1, 16))


def test_run_refuses_what_does_not_fit_the_plan(make: Make) -> None:
    backend = make(torch.float32)
    with pytest.raises(ValueError, match="plan"):
        backend.run(torch.zeros(1, 3, 16), torch.zeros(2, 2, 4, 1, 16))
    backend.plan(paged_batch([[0], [5]], [1, 1], [3, 2], 4))
    with pytest.raises(ValueError, match="kv_indices"):
        backend.run(torch.zeros(2, 3, 16), torch.zeros(5, 2, 4, 1, 16))
    with pytest.raises(ValueError, match="rows"):
        backend.run(torch.zeros(3, 3, 16), torch.zeros(6, 2, 4, 1, 16))
    with pytest.raises(ValueError, match="block size"):
        backend.run(torch.zeros(2, 3, 16), torch.zeros(6, 2, 8, 1, 16))


def test_parts_of_a_long_context_are_joined(make: Make) -> None:
    for length in (PART - 1, PART + PART // 2, 3 * PART + 7):
        for heads in ((3, 3, 64), (1, 8, 128), (2, 1, 80)):
            lens = [(1, length), (1, 2), (1, PART)]
            assert_equals_dense(make, random_case(lens, 16, *heads, torch.float32, length))


def test_scores_far_apart_neither_overflow_nor_vanish(make: Make) -> None:
    case = random_case([(1, 300)], 16, 1, 1, 16, torch.float32, 8)
    assert_equals_dense(make, replace(case, q=case.q * 100))


def test_the_prefill_kernel_keeps_scores_far_apart() -> None:
    case = random_case([(70, 600)], 16, 1, 1, 64, torch.bfloat16, 8)
    assert_equals_dense(native_backend, replace(case, q=case.q * 100))


def test_the_native_kernel_refuses_what_it_can_not_read() -> None:
    backend = native_backend(torch.float32)
    backend.plan(paged_batch([[0]], [1], [3], 4))
    with pytest.raises(ValueError, match="multiples of 16"):
        backend.run(torch.zeros(1, 3, 8), torch.zeros(2, 2, 4, 1, 8))
    with pytest.raises(ValueError, match="float32"):
        backend.run(torch.zeros(1, 3, 16).double(), torch.zeros(2, 2, 4, 1, 16))
    with pytest.raises(ValueError, match="contiguous"):
        backend.run(torch.zeros(1, 3, 16), torch.zeros(2, 2, 4, 1, 32)[..., ::2])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_equals_dense() -> None:
    case = random_case([(40, 70), (1, 33), (1, 5)], 16, 3, 3, 64, torch.float32, 6)
    backend = TorchBackend("cuda")
    backend.plan(case.batch)
    out = backend.run(case.q.cuda(), case.kv.cuda()).cpu().double()
    torch.testing.assert_close(out, dense_attention(case), atol=1e-4, rtol=0)
