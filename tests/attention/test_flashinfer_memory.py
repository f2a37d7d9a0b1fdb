"""Memory that FlashInfer reads behind chatkv's back: staged metadata, workspaces, a graph's buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.flashinfer import wrappers
from chatkv.attention.flashinfer import wrappers as workspace
from chatkv.attention.flashinfer.backend import BUCKETS, FlashInferBackend, bucket, padded
from chatkv.attention.flashinfer.rules import Heads, Limits
from chatkv.attention.flashinfer.wrappers import INT_BYTES, Staging, Workspaces
from tests.attention.batches import paged_batch
from tests.attention.flashinfer_fakes import Recorder

CPU = torch.device("cpu")
GOOD = Heads(9, 3, 64, torch.bfloat16)
OVERFLOW = "Buffer overflow when allocating memory for batch_prefill_tmp_v with size 1"


NAMES = ("qo_indptr", "kv_indptr", "kv_indices", "last_page_len")


class Plan(NamedTuple):
    """Copies a plan asked for: what they read, and what was there when it asked."""

    sources: list[torch.Tensor]
    asked: list[np.ndarray]

    def intact(self) -> bool:
        return all((s.numpy() == a).all() for s, a in zip(self.sources, self.asked, strict=True))


class Device:
    """A GPU so slow that a plan's copies are over only when someone has waited for its event."""

    def __init__(self) -> None:
        self.latest: Plan | None = None
        self.in_flight: list[Plan] = []

    def event(self) -> Event:
        return Event(self)


class Event:
    def __init__(self, device: Device) -> None:
        self.device = device
        self.plan: Plan | None = None

    def record(self) -> None:
        self.plan = self.device.latest

    def synchronize(self) -> None:
        self.device.in_flight = [plan for plan in self.device.in_flight if plan is not self.plan]


def decode_batch(requests: int, seed: int) -> PagedBatch:
    rng = np.random.default_rng(seed)
    lens = rng.integers(1, 60, requests).tolist()
    tables = [rng.integers(0, 100, 16).tolist() for _ in lens]
    return paged_batch(tables, [1] * requests, lens, 4)


def test_what_a_copy_still_reads_is_not_written() -> None:
    device = Device()
    staging = Staging(CPU, pin=False, event=device.event)
    most = 0
    for step, requests in enumerate([3, 1, 64, 2, 200, 7, 7, 7]):
        batch = decode_batch(requests, step)
        staged = staging.stage(batch)
        assert all(plan.intact() for plan in device.in_flight)
        most = max(most, len(device.in_flight))
        staging.settle()
        assert not device.in_flight  # the library's own buffer may be written
        for name in NAMES:
            assert getattr(staged, name).dtype == torch.int32
            assert (getattr(staged, name).numpy() == getattr(batch, name)).all()
        assert staged.longest == batch.q_lens.max()
        sources = [getattr(staged, name) for name in NAMES]
        device.latest = Plan(sources, [source.numpy().copy() for source in sources])
        device.in_flight.append(device.latest)
        staging.sent()
    assert most == 1  # the next step is staged while the copies of the last one run


def test_a_plan_waits_for_the_copies_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Mark:
        def record(self) -> None:
            order.append("record")

        def synchronize(self) -> None:
            order.append("wait")

    monkeypatch.setattr(wrappers, "Staging", lambda device: Staging(device, pin=False, event=Mark))
    recorder = Recorder()
    backend = FlashInferBackend(recorder, GOOD, CPU)  # type: ignore[arg-type]
    for step in range(3):
        seen = len(recorder.named(".plan"))
        order.append("step")
        backend.plan(decode_batch(2, step))
        assert len(recorder.named(".plan")) == seen + 1
    # The first has nothing to wait for; the third also waits for the first, whose memory it takes.
    assert order == ["step", "record", "step", "wait", "record", "step", "wait", "wait", "record"]
    recorder.fails = [RuntimeError("broken")]
    with pytest.raises(RuntimeError, match="broken"):
        backend.plan(decode_batch(2, 9))
    assert order[-1] == "record"  # what it had asked for is waited for, too


def test_workspaces_are_sized_by_the_library_and_shared() -> None:
    recorder = Recorder(needs=(8 << 20, 9 << 20))
    FlashInferBackend(recorder, GOOD, CPU, Limits(block_size=4, batch_tokens=100, requests=3, context=1000))  # type: ignore[arg-type]
    resets = recorder.named("reset_workspace_buffer")
    floats, ints = [call.args[0] for call in resets], [call.args[1] for call in resets]
    assert floats[0] is floats[1]
    assert ints[0].data_ptr() != ints[1].data_ptr()
    assert floats[0].numel() == (8 << 20) * workspace.MARGIN
    assert ints[0].numel() == (9 << 20) * workspace.MARGIN
    assert not floats[0].any()
    asked = {(len(c.arguments.get("qo_indptr", c.arguments.get("indptr"))) - 1) for c in sizes(recorder)}
    assert asked == {1, 3}
    pages = [int(c.arguments.get("paged_kv_indptr", c.arguments.get("indptr"))[1]) for c in sizes(recorder)]
    assert set(pages) == {250}


def sizes(recorder: Recorder) -> list[Any]:
    return recorder.named("workspace_size")


def test_a_library_that_can_not_tell_gets_256_mib() -> None:
    recorder = Recorder(needs=None)
    FlashInferBackend(recorder, GOOD, CPU)  # type: ignore[arg-type]
    for call in recorder.named("reset_workspace_buffer"):
        assert call.args[0].numel() == 256 << 20
        assert call.args[1].numel() == INT_BYTES


def test_a_workspace_too_small_grows_and_the_plan_is_made_again() -> None:
    recorder = Recorder()
    backend = FlashInferBackend(recorder, GOOD, CPU)  # type: ignore[arg-type]
    graph = backend.graph(2, 32)
    recorder.calls.clear()
    recorder.needs, recorder.fails = (64 << 20, 1 << 20), [RuntimeError(OVERFLOW)]
    backend.plan(decode_batch(2, 0))
    (reset,) = recorder.named("reset_workspace_buffer")
    assert reset.args[0].numel() == 64 << 20
    first, second = recorder.named(".plan")
    assert first.wrapper is second.wrapper is reset.wrapper
    # A graph's wrapper keeps its own, whose address was captured.
    recorder.fails = [RuntimeError(OVERFLOW)]
    with pytest.raises(RuntimeError, match="overflow"):
        graph.plan(decode_batch(2, 0))
    assert len(recorder.named("reset_workspace_buffer")) == 1


def test_other_failures_pass_and_absurd_needs_are_refused() -> None:
    recorder = Recorder()
    wrapper = recorder.BatchDecodeWithPagedKVCacheWrapper()
    spaces = Workspaces(CPU)
    recorder.fails = [RuntimeError("no kernel image")]
    with pytest.raises(RuntimeError, match="no kernel image"):
        spaces.plan(wrapper, {})
    recorder.needs, recorder.fails = (1 << 40, 1), [RuntimeError(OVERFLOW)]
    with pytest.raises(ValueError, match="lower --max-batch-tokens or --max-running"):
        spaces.plan(wrapper, {})
    recorder.needs, recorder.fails = None, [RuntimeError(OVERFLOW)]
    size = spaces.shared.numel()
    spaces.plan(wrapper, {})
    assert spaces.shared.numel() == 2 * size


def test_padded_rows_have_nothing_to_read() -> None:
    batch = paged_batch([[4, 7], [2]], [1, 1], [6, 3], 4)
    more = padded(batch, 4)
    assert more.kv_indptr.tolist() == [0, 2, 3, 3, 3]
    assert more.last_page_len.tolist() == [2, 3, 1, 1]
    assert more.qo_indptr.tolist() == [0, 1, 2, 3, 4]
    assert more.kv_indices.tolist() == [4, 7, 2]
    for array in (more.kv_indptr, more.last_page_len, more.qo_indptr, more.kv_indices):
        assert array.dtype == np.int32
    same = padded(batch, 2)
    assert same.kv_indptr.tolist() == batch.kv_indptr.tolist()
    assert same.last_page_len.tolist() == batch.last_page_len.tolist()


def test_a_graph_takes_what_fits_and_says_what_does_not() -> None:
    recorder = Recorder()
    graph = FlashInferBackend(recorder, GOOD, CPU).graph(2, 4)  # type: ignore[arg-type]
    made = recorder.named("DecodeWithPagedKVCacheWrapper.__init__")[-1].arguments
    assert made["use_cuda_graph"] is True
    shapes = [len(made[f"paged_kv_{name}_buffer"]) for name in ("indptr", "indices", "last_page_len")]
    assert shapes == [3, 4, 2]
    good = paged_batch([[0]], [1], [3], 4)
    assert graph.fits(good)
    graph.plan(good)
    with pytest.raises(ValueError, match="2 rows got 1"):
        graph.run(torch.zeros(1, 9, 64, dtype=torch.bfloat16), torch.zeros(1, 2, 4, 3, 64))
    for batch in (
        paged_batch([[0], [1], [2]], [1, 1, 1], [1, 1, 1], 4),
        paged_batch([[0, 1, 2, 3, 4]], [1], [20], 4),
        paged_batch([[0]], [2], [2], 4),
    ):
        assert not graph.fits(batch)
        with pytest.raises(ValueError, match="a graph for 2 decoding requests with 4 blocks"):
            graph.plan(batch)
        with pytest.raises(ValueError, match="plan a batch"):
            graph.run(torch.zeros(2, 9, 64), torch.zeros(1, 2, 4, 3, 64))
    with pytest.raises(ValueError, match="at least one row"):
        FlashInferBackend(recorder, GOOD, CPU).graph(4, 3)  # type: ignore[arg-type]


def test_buckets() -> None:
    assert [bucket(n) for n in (1, 2, 3, 9, 64)] == [1, 2, 4, 16, 64]
    assert bucket(BUCKETS[-1] + 1) is None
    assert list(BUCKETS) == sorted(BUCKETS)
