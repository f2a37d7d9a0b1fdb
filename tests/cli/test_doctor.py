from __future__ import annotations

from pathlib import Path

import pytest
import torch

from chatkv.cli import doctor
from chatkv.cli.outcome import invoke
from chatkv.model import dtype, quantise
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


def test_what_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(library, "kernels", lambda dtype: None)
    monkeypatch.setattr(library, "why_not", lambda: "not built: install a compiler")
    monkeypatch.setattr(quantise, "unusable", lambda form: f"no {form}")
    monkeypatch.setattr(dtype, "auto_dtype", lambda: torch.bfloat16)
    monkeypatch.setenv("CHATKV_CACHE", str(tmp_path / "none"))
    said = told(capsys)
    assert said["native kernels"] == "not built: install a compiler"
    assert said["attention and norms by"] == "torch"
    assert (said["int4 products"], said["--dtype auto"]) == ("no int4", "bf16")
    assert "chatkv fetch" in said["models here"]
    monkeypatch.setattr(dtype, "auto_dtype", lambda: torch.float32)
    assert told(capsys)["--dtype auto"].startswith("fp32")


def test_a_folder_that_can_not_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert doctor._unwritable(tmp_path / "a" / "b") == ""
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert str(tmp_path) in doctor._unwritable(tmp_path / "a" / "b")
