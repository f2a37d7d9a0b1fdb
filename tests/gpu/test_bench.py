"""``python -m benchmarks gpu`` and ``chatkv doctor`` where there is something to measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import run as measure
from chatkv.cli.outcome import invoke

pytestmark = pytest.mark.gpu


def test_the_bench(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    line = "gpu --attention flashinfer --shape tiny --batch 1,8 --context 64 --steps 16 --prompt 128"
    assert measure([*line.split(), "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["attention"].startswith("flashinfer/cuda")
    rows = {(row["batch"], row["graphs"]): row for row in found["decode"]}
    assert set(rows) == {(1, True), (1, False), (8, True), (8, False)}
    for row in rows.values():
        assert 0 < row["roofline"] < 1.5  # a model that fits in the cache may read faster than memory
        assert (row["overhead_s"] is not None) == row["graphs"]
        if row["graphs"]:
            assert 0 < row["attention_s"] < row["device_s"], "no kernel of FlashInfer's was traced"
            assert 0 < row["alone_s"] < row["device_s"]
    assert found["copy_bandwidth"] > 50e9
    assert found["ttft_cached_s"] < found["ttft_cold_s"] * 2


def test_the_goals(tmp_path: Path) -> None:
    """Of an H200, with the weights of a model of 7B parameters."""
    if torch.cuda.mem_get_info(0)[0] < 60 << 30:
        pytest.skip("7B parameters and 64 contexts need 60 GiB of free memory")
    out = tmp_path / "out.json"
    assert measure(["gpu", "--shape", "7b", "--batch", "1,64", "--json", str(out)]) == 0
    rows = {row["batch"]: row for row in json.loads(out.read_text())["decode"] if row["graphs"]}
    assert rows[1]["roofline"] >= 0.6
    assert rows[64]["times_alone"] <= 1.1
    assert max(row["overhead_s"] for row in rows.values()) <= 0.5e-3


def test_the_doctor_names_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "GPU 0" in out
    assert "sm_" in out
