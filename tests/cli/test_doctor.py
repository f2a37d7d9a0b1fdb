from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from chatkv.attention.flashinfer import probe
from chatkv.cli import doctor_gpu
from chatkv.cli.outcome import invoke
from chatkv.engine import compute_cpu
from chatkv.engine.devices import Place
from chatkv.model import quantise
from chatkv.native import library


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert invoke(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    column = lines[0].index("here")
    return {line[:column].strip(): line[column:].strip() for line in lines[1:]}


def test_what_is_taken_here(capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys)
    assert said["CPU"].endswith(torch.backends.cpu.get_cpu_capability())
    native = library.kernels(torch.float32)
    assert said["native kernels"] == (library.why_not() if native is None else f"yes, {native.variant}")
    assert said["attention and norms by"] == ("torch" if native is None else "native kernels")


def test_a_gpu_is_described(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = told(capsys)
    if not torch.cuda.is_available():
        assert said["GPU"]
        assert said["--device auto"].startswith("cpu")
    gpu = SimpleNamespace(name="NVIDIA H200", major=9, minor=0, total_memory=139 << 30)
    monkeypatch.setattr(doctor_gpu, "cuda_problem", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: gpu)
    monkeypatch.setattr(probe, "version", lambda: "0.7.4")
    for problem in (None, "it isn't installed"):
        monkeypatch.setattr(probe, "why_not", lambda found=problem: found)
        for capability, served in (((9, 0), problem is None), ((7, 0), False)):
            place = Place(torch.device("cuda:0"), gpu.name, capability)
            monkeypatch.setattr(doctor_gpu, "pick", lambda name, notes, there=place: there)
            said = told(capsys)
            assert said["GPU 0"] == "NVIDIA H200, sm_90, 142,336 MiB"
            assert said["--device auto"] == "cuda:0"
            assert ("tried when the engine starts" in said["FlashInfer"]) == served
            assert ("can't be had: it isn't installed" in said["FlashInfer"]) == (problem is not None)
            assert ("sm_75 and newer only" in said["FlashInfer"]) == (not served and problem is None)


def test_what_flashinfer_compiles_with_is_told_wherever_it_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nvcc = tmp_path / "cuda/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.1'\n")
    nvcc.chmod(0o755)
    monkeypatch.delenv("FLASHINFER_NVCC", raising=False)
    monkeypatch.delenv("FLASHINFER_WORKSPACE_BASE", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setenv("CHATKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    for installed in (None, "0.7.4"):
        monkeypatch.setattr(probe, "version", lambda found=installed: found)
        said = told(capsys)
        assert said["CUDA of torch"] == "12.6"
        assert said["FlashInfer: nvcc"] == f"{nvcc}, Cuda compilation tools, release 12.4, V12.4.1"
        assert {"FlashInfer: ninja", "FlashInfer: C++ compiler"} <= set(said)
        folder = tmp_path / "cache/flashinfer/cuda-12.6-nvcc-12.4"
        assert said["FlashInfer: kernels in"] == str(folder)
        assert said["FlashInfer: kernels"] == f"0 compiled for version {installed or 'unknown'}"
    kernel = folder / ".cache/flashinfer/0.7.4/90a/cached_ops/batch_prefill/batch_prefill.so"
    kernel.parent.mkdir(parents=True)
    kernel.touch()
    assert told(capsys)["FlashInfer: kernels"] == "1 compiled for version 0.7.4"
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK)
    assert f"{folder} (can't be written: " in told(capsys)["FlashInfer: kernels in"]
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert "another CUDA than torch's 13.0: install that toolkit" in told(capsys)["FlashInfer: nvcc"]


def test_what_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "kernels", lambda dtype: None)
    for module in (library, compute_cpu):
        monkeypatch.setattr(module, "why_not", lambda: "not built: install a compiler")
    monkeypatch.setattr(quantise, "unusable", lambda form: f"no {form}")
    monkeypatch.setattr(compute_cpu, "unusable", lambda form: f"no {form}")
    monkeypatch.setattr(compute_cpu, "auto_dtype", lambda: torch.bfloat16)
    monkeypatch.setenv("CHATKV_CACHE", str(tmp_path / "none"))
    said = told(capsys)
    assert said["native kernels"] == "not built: install a compiler"
    assert said["attention and norms by"] == "torch"
    assert (said["int4 products"], said["--dtype auto"]) == (
        "no int4",
        "bf16: this CPU has bf16 instructions",
    )
    assert "chatkv fetch" in said["models here"]
    monkeypatch.setattr(compute_cpu, "auto_dtype", lambda: torch.float32)
    said = told(capsys)
    assert said["--dtype auto"].startswith("fp32: no bf16 instructions")
    assert "install a compiler" in said["--dtype auto"]
    monkeypatch.setattr(compute_cpu, "why_not", lambda: None)
    monkeypatch.setattr(compute_cpu, "parallel", lambda: False)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert "one core only" in told(capsys)["--dtype auto"]
    monkeypatch.setattr(compute_cpu, "parallel", lambda: True)
    assert told(capsys)["--dtype auto"].startswith(
        "int4 for checkpoints that were 4-bit, fp32 for others: no"
    )


def test_a_folder_that_can_not_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert doctor_gpu.unwritable(tmp_path / "a" / "b") == ""
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert str(tmp_path) in doctor_gpu.unwritable(tmp_path / "a" / "b")


def test_kernels_that_can_not_be_had_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHATKV_NATIVE", "avx2")
    for command in (["run"], ["doctor"]):
        library._library.cache_clear()
        library.kernels.cache_clear()
        assert invoke(command) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert "x86-64-v3" in said[0]
        assert "'avx2'" in said[0]
