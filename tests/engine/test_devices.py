"""Where to compute, and what a GPU gets. There need be none: torch's answers about it are made up here."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from chatkv.attention.flashinfer import probe
from chatkv.attention.flashinfer.backend import FlashInferBackend
from chatkv.attention.flashinfer.probe import FlashInferError
from chatkv.attention.torch_backend import TorchBackend
from chatkv.engine import compute, compute_gpu, devices
from chatkv.engine.compute import build
from chatkv.engine.config import EngineConfig, EngineError
from chatkv.engine.devices import CPU, Place, pick
from chatkv.engine.runner import Part, Runner
from chatkv.engine.sizing import pool_blocks
from chatkv.kvcache.cache import Copy
from chatkv.model.checkpoint import load_weights
from chatkv.model.decoder import Decoder
from tests.attention.flashinfer_fakes import RealFlashInfer
from tests.engine.conftest import Tiny
from tests.model.tiny import reference, save

H200 = Place(torch.device("cpu"), "NVIDIA H200", (9, 0))
"""A place that is taken for a GPU, though its tensors lie in the CPU's memory."""


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    for name, answer in {
        "is_available": lambda: True,
        "device_count": lambda: 2,
        "get_device_capability": lambda device: (9, device.index),
        "get_device_name": lambda device: f"GPU {device.index}",
    }.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    monkeypatch.setattr(devices, "_trouble", lambda device: None)


def test_a_gpu_is_taken_where_there_is_one(two_gpus: None) -> None:
    notes: list[str] = []
    assert pick("auto", notes) == pick("cuda", notes) == Place(torch.device("cuda:0"), "GPU 0", (9, 0))
    assert pick("cuda:1", notes) == Place(torch.device("cuda:1"), "GPU 1", (9, 1))
    assert pick("cpu", notes) == CPU
    assert notes == []
    with pytest.raises(EngineError, match="--device cuda:2 can't be had: there is no GPU 2, the last one is"):
        pick("cuda:2", notes)


def test_a_gpu_that_can_not_compute_is_left(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_trouble", lambda device: f"{device} can't compute: no kernel image")
    monkeypatch.setattr(devices, "has_driver", lambda: True)
    notes: list[str] = []
    assert pick("auto", notes) == CPU
    assert "though there is an NVIDIA driver: cuda:0 can't compute: no kernel image" in notes[0]
    with pytest.raises(EngineError, match="--device cuda can't be had: cuda:0 can't compute"):
        pick("cuda", notes)


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    for driver in (False, True):
        monkeypatch.setattr(devices, "has_driver", lambda found=driver: found)
        notes: list[str] = []
        assert pick("auto", notes) == CPU
        assert len(notes) == driver
    with pytest.raises(EngineError, match="is built without CUDA; use --device cpu"):
        pick("cuda", [])
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineError, match="torch finds no GPU, or no driver"):
        pick("cuda:0", [])


def test_what_was_asked_of_a_cpu_only_a_gpu_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save("llama", tmp_path)

    def load() -> ModuleType:
        raise AssertionError("FlashInfer was looked for")

    monkeypatch.setattr(probe, "load", load)
    assert build(tmp_path, "fp32", "auto").attention.endswith("/cpu")
    with pytest.raises(
        EngineError, match=r"flashinfer can't be had: it needs an NVIDIA GPU.*--attention auto"
    ):
        build(tmp_path, "bf16", "flashinfer")
    with pytest.raises(EngineError, match="--dtype fp16 is for GPUs"):
        build(tmp_path, "fp16", "auto")


@pytest.fixture
def on_h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "pick", lambda device, notes: H200)


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A model whose heads have 64 numbers each."""
    reference("llama", head_dim=64).save_pretrained(tmp_path)
    return tmp_path


def test_auto_on_a_gpu_is_flashinfer(on_h200: None, real: RealFlashInfer, wide: Path) -> None:
    stages: list[str] = []
    built = build(wide, "auto", "auto", "auto", progress=lambda stage, fraction: stages.append(stage))
    assert isinstance(built.backend, FlashInferBackend)
    assert (built.attention, built.dtype) == ("flashinfer/cpu", "bf16")
    assert built.notes == (
        f"attention by FlashInfer {real.library.__version__}: NVIDIA H200 (sm_90) passed its trial",
    )
    assert "compiles for minutes" in stages[0]
    assert build(wide, "fp16", "flashinfer", "auto").decoder.dtype == torch.float16


def test_flashinfer_that_can_not_be_had_gives_way_to_torch(
    on_h200: None, real: RealFlashInfer, wide: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(folder: Path, dtype: str, reason: str) -> None:
        built = build(folder, dtype, "auto", "auto")
        assert type(built.backend) is TorchBackend
        assert built.attention == "torch/cpu"
        assert built.notes[0].startswith("attention by torch, because FlashInfer can't be had: ")
        assert reason in built.notes[0]
        with pytest.raises(
            EngineError, match=r"--attention flashinfer can't be had: .*; use --attention torch"
        ):
            build(folder, dtype, "flashinfer", "auto")

    small = tmp_path / "small"
    save("llama", small)
    refused(small, "bf16", "it has no kernel for head_dim 16")
    refused(wide, "fp32", "it computes in bf16 and fp16, not float32")
    real.modules.wrong = 1.0
    refused(wide, "bf16", "its numbers are wrong here")

    def missing() -> ModuleType:
        raise FlashInferError("it isn't installed (pip install 'chatkv[gpu]')")

    monkeypatch.setattr(probe, "load", missing)
    refused(wide, "bf16", "it isn't installed")
    monkeypatch.setattr(torch.version, "hip", "7.0")
    refused(wide, "bf16", "ROCm")


def test_what_is_for_cpus_is_refused_on_a_gpu(on_h200: None, wide: Path) -> None:
    built = build(wide, "bf16", "torch", "auto")
    assert type(built.backend) is TorchBackend
    assert built.notes == ()
    with pytest.raises(EngineError, match="--attention native is for CPUs"):
        build(wide, "bf16", "native", "auto")
    for form in ("int4", "int8"):
        with pytest.raises(EngineError, match=f"--dtype {form} is for CPUs"):
            build(wide, form, "auto", "auto")


def test_a_trial_that_broke_the_gpu_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(device: torch.device) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", broken)
    with pytest.raises(EngineError, match=r"broke cuda:0 \(why\): use --attention torch"):
        compute_gpu._check_alive(torch.device("cuda:0"), FlashInferError("why"))
    compute_gpu._check_alive(torch.device("cpu"), FlashInferError("why"))


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", "CUDA", "", "mps", "cuda:0\n"])
def test_a_device_that_is_none_is_a_fault_of_usage(device: str) -> None:
    with pytest.raises(EngineError, match="--device must be auto, cpu, cuda or cuda:N") as caught:
        EngineConfig(device=device).validate()
    assert caught.value.exit_code == 2
    for good in ("auto", "cpu", "cuda", "cuda:0", "cuda:12"):
        EngineConfig(device=good).validate()


def test_memory_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 5000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    assert devices.free_memory(gpu) == 1200
    assert pool_blocks(EngineConfig(), 1 << 20, 1 << 40, gpu=True) == 4096
    assert pool_blocks(EngineConfig(), 1 << 20, 4 << 30, gpu=True) == 1024


class OneDevice(TorchDispatchMode):
    """Refuses an operator whose tensors lie on several devices, as a GPU would. ``meta`` stands for one:
    its tensors have shapes and no numbers.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        copies = func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.copy_)
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and x.dim()]
        if len({x.device for x in tensors}) > 1 and not copies:
            raise RuntimeError(f"{func}: tensors on several devices")
        return func(*args, **(kwargs or {}))


META = torch.device("meta")
IDS = np.arange(3, 40, dtype=np.int32)
BLOCKS = np.arange(30, dtype=np.int32)
PARTS = [
    Part(IDS[:9], 3, BLOCKS[:3], 1),
    Part(IDS[:1], 13, BLOCKS[4:8], 1),
    Part(IDS[:1], 5, BLOCKS[9:11], 1),
]


@pytest.fixture
def far(tiny_llama: Tiny) -> Decoder:
    """A decoder whose weights lie on another device."""
    config = tiny_llama.decoder.config
    return Decoder(config, load_weights(tiny_llama.folder, config, torch.float32, "meta"))


def test_a_step_on_a_gpu_mixes_no_devices(far: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    # There are no numbers to copy.
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: torch.zeros(tensor.shape))
    with OneDevice():
        runner = Runner(far, TorchBackend(META), 32, 4)
        runner.copy([Copy(1, 2, 3)])
        for step in (PARTS, PARTS[:1], PARTS[1:], PARTS[1:2]):
            logits = runner.forward(step, runner.kv)
            assert logits.device == torch.device("cpu")
            assert logits.shape == (len(step), far.config.vocab)
    assert runner.kv.device == META


def test_a_mixture_would_be_found(far: Decoder) -> None:
    for step in (PARTS, PARTS[:1], PARTS[1:]):
        runner = Runner(far, TorchBackend(), 32, 4)  # for the CPU
        with OneDevice(), pytest.raises(RuntimeError, match="several devices"):
            runner.forward(step, runner.kv)
