"""What FlashInfer would get wrong without a word is refused before it hears of it."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from chatkv.attention.flashinfer import probe as library
from chatkv.attention.flashinfer.backend import FlashInferBackend
from chatkv.attention.flashinfer.probe import FlashInferError, start, telling
from chatkv.attention.flashinfer.rules import Heads, Limits, refusal, wants_tensor_cores
from tests.attention.batches import paged_batch
from tests.attention.flashinfer_fakes import Recorder

CPU = torch.device("cpu")
BF16 = torch.bfloat16
GOOD = Heads(9, 3, 64, BF16)


def forget_flashinfer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It will be imported anew, and what was imported then is forgotten behind the test."""
    monkeypatch.setitem(sys.modules, "flashinfer", ModuleType("flashinfer"))
    monkeypatch.delitem(sys.modules, "flashinfer")


@pytest.mark.parametrize(
    ("heads", "capability", "said"),
    [
        (GOOD, (7, 0), "sm_75 or newer, this one is sm_70"),
        (replace(GOOD, head_dim=80), (9, 0), r"no kernel for head_dim 80 \(only 64, 128, 256\)"),
        (replace(GOOD, head_dim=96), (9, 0), "head_dim 96"),
        (replace(GOOD, head_dim=512), (9, 0), "head_dim 512"),
        (GOOD, (7, 5), "bf16 needs a GPU of sm_80 or newer, this one is sm_75"),
        (replace(GOOD, dtype=torch.float32), (9, 0), "bf16 and fp16, not float32"),
        (replace(GOOD, heads=10), (9, 0), "10 query heads are no whole groups over 3 KV heads"),
    ],
)
def test_models_and_gpus_it_has_no_kernel_for(heads: Heads, capability: tuple[int, int], said: str) -> None:
    with pytest.raises(FlashInferError, match=said):
        start(heads, CPU, capability, Limits())


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (9, 0), (10, 0), (12, 1)])
def test_what_it_can_do_is_not_refused(head_dim: int, capability: tuple[int, int]) -> None:
    assert refusal(replace(GOOD, head_dim=head_dim), capability) is None
    assert refusal(Heads(14, 2, head_dim, torch.float16), (7, 5)) is None


def test_tensor_cores_by_group_size() -> None:
    # 7 (Qwen2.5) has no kernel without them; 5 and others neither.
    assert [g for g in range(1, 17) if not wants_tensor_cores(g)] == [1, 2, 3]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def backend(recorder: Recorder) -> FlashInferBackend:
    made = FlashInferBackend(recorder, GOOD, CPU)  # type: ignore[arg-type]
    recorder.calls.clear()
    return made


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"qo_indptr": np.array([0, 1, 2], dtype=np.int64)}, "qo_indptr: want a flat int32"),
        ({"kv_indptr": np.array([0, 1, 2], dtype=np.int64)}, "kv_indptr: want a flat int32"),
        ({"kv_indices": np.array([0, 1], dtype=np.int64)}, "kv_indices: want a flat int32"),
        ({"last_page_len": np.array([3, 2], dtype=np.int64)}, "last_page_len: want a flat int32"),
        ({"last_page_len": np.array([0, 1], dtype=np.int32)}, "last_page_len"),
        ({"last_page_len": np.array([4, 5], dtype=np.int32)}, "last_page_len"),
        ({"last_page_len": np.array([3], dtype=np.int32)}, "indptr lengths"),
        ({"kv_indptr": np.array([0, 2], dtype=np.int32)}, "indptr lengths"),
        ({"qo_indptr": np.array([0], dtype=np.int32)}, "indptr lengths"),
        ({"kv_indptr": np.array([0, 1, 1], dtype=np.int32)}, "kv_indptr"),
        ({"kv_indices": np.array([0], dtype=np.int32)}, "kv_indices has 1"),
        ({"kv_indices": np.array([0, -1], dtype=np.int32)}, "kv_indices must lie"),
        ({"qo_indptr": np.array([0, 1, 9], dtype=np.int32)}, "more query rows"),
    ],
)
def test_a_malformed_batch_never_reaches_the_library(
    backend: FlashInferBackend, recorder: Recorder, change: dict[str, np.ndarray], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        backend.plan(replace(paged_batch([[0], [1]], [1, 1], [3, 2], 4), **change))
    with pytest.raises(ValueError, match="plan a batch"):
        backend.run(torch.zeros(2, 9, 64, dtype=BF16), torch.zeros(2, 2, 4, 3, 64, dtype=BF16))
    graph = backend.graph(4, 8)
    recorder.calls.clear()
    with pytest.raises(ValueError, match=named):
        graph.plan(replace(paged_batch([[0], [1]], [1, 1], [3, 2], 4), **change))
    assert recorder.calls == []


@pytest.mark.parametrize(
    ("q", "kv", "said"),
    [
        (torch.zeros(3, 9, 64, dtype=BF16), torch.zeros(6, 2, 4, 3, 64, dtype=BF16), "rows"),
        (torch.zeros(2, 9, 64, dtype=BF16), torch.zeros(5, 2, 4, 3, 64, dtype=BF16), "kv_indices"),
        (torch.zeros(2, 9, 64, dtype=BF16), torch.zeros(6, 2, 8, 3, 64, dtype=BF16), "block size"),
        (torch.zeros(2, 8, 64, dtype=BF16), torch.zeros(6, 2, 4, 3, 64, dtype=BF16), "9/3 heads of 64"),
        (torch.zeros(2, 9, 64, dtype=BF16), torch.zeros(6, 2, 4, 9, 64, dtype=BF16), "9/3 heads of 64"),
        (torch.zeros(2, 9, 32, dtype=BF16), torch.zeros(6, 2, 4, 3, 32, dtype=BF16), "9/3 heads of 64"),
        (torch.zeros(2, 9, 64), torch.zeros(6, 2, 4, 3, 64, dtype=BF16), "q in torch.float32"),
        (torch.zeros(2, 9, 64, dtype=BF16), torch.zeros(6, 2, 4, 3, 64), "KV in torch.float32"),
        (torch.zeros(2, 9, 64, dtype=BF16), torch.zeros(6, 2, 4, 3, 128, dtype=BF16)[..., ::2], "contiguous"),
    ],
)
def test_run_refuses_what_does_not_fit_the_plan(
    backend: FlashInferBackend, recorder: Recorder, q: torch.Tensor, kv: torch.Tensor, said: str
) -> None:
    backend.plan(paged_batch([[0], [5]], [1, 1], [3, 2], 4))
    with pytest.raises(ValueError, match=said):
        backend.run(q, kv)
    assert not recorder.named(".run")


def pretend(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def installed(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", installed)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (None, r"it isn't installed \(pip install 'chatkv\[gpu\]'\)"),
        ("0.6.17", "version 0.6.17 is installed, 0.6.18 up to, but not including, 0.8.0 is needed"),
        ("0.8.0rc1", "version 0.8.0rc1 is installed"),
        ("1.0.0", "version 1.0.0 is installed"),
        ("unknown", "version unknown is installed"),
    ],
)
def test_a_library_that_is_not_there_or_of_another_version(
    monkeypatch: pytest.MonkeyPatch, version: str | None, said: str
) -> None:
    pretend(monkeypatch, version)
    with pytest.raises(FlashInferError, match=said):
        library.load()


@pytest.mark.parametrize("version", ["0.6.18", "0.6.18.post1", "0.7.2.post1", "0.7.4", "0.7.4+cu130"])
def test_a_library_of_a_known_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    pretend(monkeypatch, version)
    assert library.why_not() is None


def test_a_library_that_can_not_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, "0.7.4")
    (tmp_path / "flashinfer.py").write_text("raise RuntimeError('cubin 1 does not match 2\\nand more')")
    monkeypatch.syspath_prepend(tmp_path)
    forget_flashinfer(monkeypatch)
    monkeypatch.setenv("CHATKV_CACHE", str(tmp_path))
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", "")
    monkeypatch.setenv("FLASHINFER_LOGGING_LEVEL", "")
    monkeypatch.delenv("FLASHINFER_LOGGING_LEVEL")
    with pytest.raises(
        FlashInferError, match=r"importing it failed: RuntimeError: cubin 1 does not match 2$"
    ):
        library.load()
    assert os.environ["FLASHINFER_WORKSPACE_BASE"].startswith(str(tmp_path / "flashinfer" / "cuda-"))
    assert os.environ["FLASHINFER_LOGGING_LEVEL"] == "error"


def test_ninja_beside_the_interpreter_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, "0.7.4")
    (tmp_path / "flashinfer.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    forget_flashinfer(monkeypatch)
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path))
    monkeypatch.setenv("FLASHINFER_LOGGING_LEVEL", "error")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    library.load()
    assert os.environ["PATH"] == "/nowhere"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ninja").touch(mode=0o755)
    for _ in range(2):
        library.load()
        assert os.environ["PATH"] == f"{tmp_path / 'bin'}{os.pathsep}/nowhere"


NINJA = """Ninja build failed. Ninja output:
ninja: Entering directory `/x'
[1/4] nvcc -c batch_prefill.cu
FAILED: batch_prefill.cuda.o
nvcc fatal   : Unsupported gpu architecture 'compute_120a'
ninja: build stopped: subcommand failed.
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError(NINJA), "the build failed: nvcc fatal   : Unsupported gpu architecture 'compute_120a'"),
        (RuntimeError("Ninja build failed."), "the build failed: Ninja build failed."),
        (FileNotFoundError(2, "No such file or directory", "ninja"), "No such file or directory: 'ninja'"),
        (RuntimeError("Could not find nvcc\nand more"), "Could not find nvcc"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_line_that_says_most(error: Exception, said: str) -> None:
    assert telling(error).endswith(said)
    assert "\n" not in telling(error)


def test_a_library_that_fails_at_work_says_why_in_one_line(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("chatkv.attention.flashinfer.probe.load", lambda: recorder)
    recorder.fails = [RuntimeError(NINJA)]
    caplog.set_level(logging.INFO)
    with pytest.raises(FlashInferError, match="can't be compiled or run here: the build failed: nvcc fatal"):
        start(GOOD, CPU, (9, 0), Limits())
    # All of it is in the log; a terminal gets warnings and worse.
    assert "[1/4] nvcc -c" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.INFO}
    with pytest.raises(FlashInferError, match="numbers are wrong here"):  # the recorder computes nothing
        start(GOOD, CPU, (9, 0), Limits())
