"""Steps on a GPU that is none: its tensors have a device and a shape, and no numbers (torch's ``meta``).

An operator whose tensors lie on several devices is refused, as by a GPU; so is one in a capture that sees the
host's memory, and whatever waits for a number. What a GPU would compute is not tested by this. (Fake tensors
of device ``cuda`` would need a CUDA build of torch: indexing asks it for the device.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.gpu.shapes import SHAPES, random_weights
from chatkv.attention.flashinfer.backend import FlashInferBackend
from chatkv.attention.flashinfer.rules import Heads, Limits
from chatkv.attention.torch_backend import TorchBackend
from chatkv.engine import graphs as graphs_module
from chatkv.engine.graph_start import start_graphs
from chatkv.engine.runner import Part, Runner
from chatkv.kvcache.cache import Copy
from chatkv.model.decoder import Decoder
from tests.attention.flashinfer_fakes import Recorder
from tests.engine.test_devices import OneDevice

GPU, HOST = torch.device("meta"), torch.device("cpu")
TINY = SHAPES["tiny"]
IDS, BLOCKS = np.arange(3, 40, dtype=np.int32), np.arange(30, dtype=np.int32)
PREFILL = Part(IDS[:9], 3, BLOCKS[:1], 1)
DECODE = [Part(IDS[:1], 33, BLOCKS[4:7], 1), Part(IDS[:1], 5, BLOCKS[9:10], 1)]
STEPS = [[PREFILL, *DECODE], [PREFILL], DECODE, DECODE[:1]]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # There are no numbers to copy.
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: torch.zeros(tensor.shape, dtype=tensor.dtype))
    with OneDevice():
        yield


class OnDevice(TorchDispatchMode):
    """Refuses what a capture can't record: whatever reads or writes the host's memory."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, torch.Tensor) and leaf.device != GPU:
                raise RuntimeError(f"{func} in a capture reads or writes the host's memory")
        return result


class Capture:
    def capture(self, call: Callable[[], None]) -> None:
        with OnDevice():
            call()

    def replay(self) -> None: ...


def decoder() -> Decoder:
    return Decoder(TINY, random_weights(TINY, torch.bfloat16, str(GPU)))


def flashinfer(made: Decoder) -> tuple[FlashInferBackend, Recorder]:
    recorder = Recorder()
    heads = Heads(TINY.num_heads, TINY.num_kv_heads, TINY.head_dim, torch.bfloat16)
    return FlashInferBackend(recorder, heads, GPU, Limits()), recorder  # type: ignore[arg-type]


def compute(runner: Runner) -> None:
    """Steps of all kinds, read back in all ways."""
    runner.copy([Copy(1, 2, 3)])
    for parts in STEPS:
        rows = runner._compute(parts, runner.kv)
        assert rows.logits.device == GPU
        assert rows.logits.shape == (len(parts), TINY.vocab)
        for whole in (None, [True] * len(parts), [False] * len(parts), [at == 0 for at in range(len(parts))]):
            read = runner._read(rows, whole)
            assert len(read) == len(parts)
            for at, row in enumerate(read):
                assert row.device == HOST
                assert row.shape == ((TINY.vocab,) if whole is None or whole[at] else ())
        assert runner.forward(parts, runner.kv).device == HOST


def test_torch_on_a_gpu_mixes_no_devices(gpu: None) -> None:
    compute(Runner(decoder(), TorchBackend(GPU), 32, 16))


def test_flashinfer_gets_each_tensor_where_it_reads_it(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs_module._Step, "off", lambda *args: 0.0)  # a number that there is not
    made = decoder()
    backend, recorder = flashinfer(made)
    runner = Runner(made, backend, 32, 16, spare=True)
    compute(runner)
    note = start_graphs(runner, Capture, requests=4, context=200, progress=lambda *stage: None)
    assert note.startswith("steps in which all requests decode, at most 4,"), note
    graphs = runner.graphs
    assert graphs is not None
    seen = len(recorder.named(".run"))
    compute(runner)
    # A replay runs no Python: only the two kinds of steps with a prefill came here again.
    assert len(recorder.named(".run")) - seen == 2 * 2 * TINY.num_layers
    places = {}
    for call in recorder.calls:
        values = [*enumerate(call.args), *call.arguments.items()]
        for name, value in values:
            if isinstance(value, torch.Tensor):
                places.setdefault((call.name.partition(".")[2], name), set()).add(value.device)
    host = {"qo_indptr", "indptr", "last_page_len", "paged_kv_indptr", "paged_kv_last_page_len"}
    for (method, name), where in places.items():
        if method == "workspace_size":
            continue  # the host's arithmetic alone
        assert where == ({HOST} if method == "plan" and name in host else {GPU}), (method, name)
    assert {("plan", "indices"), ("plan", "paged_kv_indices"), ("run", "paged_kv_cache")} <= set(places)


def test_a_mixture_would_be_found(gpu: None) -> None:
    runner = Runner(decoder(), TorchBackend(), 32, 16)  # for the CPU
    for parts in STEPS:
        with pytest.raises(RuntimeError, match="device"):
            runner.forward(parts, runner.kv)
    numbers = torch.ones(3, device=GPU)
    with pytest.raises(RuntimeError, match="the host's memory"):
        Capture().capture(lambda: numbers.copy_(torch.ones(3)))
