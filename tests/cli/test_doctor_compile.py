"""``chatkv doctor --compile`` and what it compiles with; no GPU is needed, and nothing is compiled here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from chatkv.attention.flashinfer import probe
from chatkv.attention.flashinfer.probe import FlashInferError, misfit
from chatkv.cli import doctor_tools
from chatkv.cli.doctor_tools import Tool, tools
from chatkv.cli.outcome import invoke
from chatkv.engine import devices
from chatkv.engine.devices import CPU, Place
from tests.model.tiny import save

H200 = Place(torch.device("cpu"), "NVIDIA H200", (9, 0))


def executable(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_tools_are_found_where_flashinfer_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc = executable(tmp_path / "cuda/bin/nvcc", "echo nvcc; echo 'Cuda compilation tools, release 13.0'")
    ninja = executable(tmp_path / "bin/ninja", "echo 1.13")
    broken = executable(tmp_path / "bin/mycxx", "exit 3")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/bin/python"))
    monkeypatch.setenv("CXX", "mycxx")
    monkeypatch.delenv("FLASHINFER_NVCC", raising=False)
    assert tools() == [
        Tool("nvcc", True, f"{nvcc}, Cuda compilation tools, release 13.0"),
        Tool("ninja", True, f"{ninja}, 1.13"),
        Tool("C++ compiler", False, f"{broken} does not run: exit code 3"),
    ]
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "none"))
    ninja.unlink()
    assert [tool.found for tool in tools()] == [False, False, False]
    assert "install the CUDA toolkit, or set CUDA_HOME to it" in tools()[0].said
    assert "pip install ninja" in tools()[1].said
    # pip puts it beside the interpreter, and nobody need have activated the environment.
    beside = executable(tmp_path / "venv/bin/ninja", "echo 1.12")
    assert tools()[1] == Tool("ninja", True, f"{beside}, 1.12")


@pytest.mark.parametrize(
    ("release", "cuda", "capability", "said"),
    [
        ((13, 0), "13.0", (9, 0), None),
        ((12, 9), "12.8", (12, 1), None),  # another minor release serves
        ((12, 4), None, (9, 0), None),
        ((12, 8), "12.8", None, None),
        ((11, 8), "12.8", (9, 0), "too old for sm_90: install the CUDA toolkit 12.0 or newer"),
        ((12, 6), "12.8", (10, 0), "too old for sm_100: install the CUDA toolkit 12.8 or newer"),
        ((12, 8), "12.8", (12, 0), "too old for sm_120: install the CUDA toolkit 12.9 or newer"),
        ((12, 8), "13.0", (9, 0), "another CUDA than torch's 13.0: install that toolkit"),
    ],
)
def test_whether_a_compiler_fits(
    release: tuple[int, int], cuda: str | None, capability: tuple[int, int] | None, said: str | None
) -> None:
    found = misfit(release, cuda, capability)
    assert (found is None) == (said is None)
    assert found is None or found.startswith(said or "")


def run(tmp_path: Path) -> int:
    save("llama", tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")  # it isn't read
    (tmp_path / "tokenizer_config.json").write_text("{}")
    return invoke(["doctor", "--compile", "--model", str(tmp_path)])


def test_kernels_are_compiled_for_the_models_heads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[tuple[object, ...]] = []
    monkeypatch.setattr(devices, "pick", lambda device, notes: H200)
    monkeypatch.setattr(probe, "start", lambda *arguments: started.append(arguments))
    assert run(tmp_path) == 0
    told = capsys.readouterr()
    assert "compiling FlashInfer's kernels for head_dim 16 in bf16" in told.err
    assert told.out.startswith("kernels for head_dim 16 in bf16 are there and right")
    heads = started[0][0]
    assert (heads.heads, heads.kv_heads, heads.dtype) == (6, 2, torch.bfloat16)  # type: ignore[attr-defined]


def test_what_can_not_be_compiled_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(*arguments: object) -> None:
        raise FlashInferError("its kernels can't be compiled")

    monkeypatch.setattr(devices, "pick", lambda device, notes: H200)
    monkeypatch.setattr(probe, "start", start)
    monkeypatch.setattr(doctor_tools, "tools", lambda *_: [Tool("nvcc", False, "missing: install it")])
    assert run(tmp_path) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "chatkv: FlashInfer can't be had: its kernels can't be compiled (nvcc missing: install it)"


def test_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(devices, "pick", lambda device, notes: CPU)
    assert run(tmp_path) == 1
    assert "needs an NVIDIA GPU, and this is the CPU" in capsys.readouterr().err
