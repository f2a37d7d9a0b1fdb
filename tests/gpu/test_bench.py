"""``chatkv bench gpu`` and ``chatkv doctor`` where there is something to measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chatkv.cli.outcome import invoke

pytestmark = pytest.mark.gpu


def test_the_bench(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    line = "bench gpu --attention flashinfer --shape tiny --batch 1,8 --context 64 --steps 16 --prompt 128"
    assert invoke([*line.split(), "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["attention"].startswith("flashinfer/cuda")
    rows = {(row["batch"], row["graphs"]): row for row in found["decode"]}
    assert set(rows) == {(1, True), (1, False), (8, True), (8, False)}
    for row in rows.values():
        assert 0 < row["roofline"] < 1.5  # a model that fits in the cache may read faster than memory
    assert found["copy_bandwidth"] > 50e9
    assert found["ttft_cached_s"] < found["ttft_cold_s"] * 2


def test_the_doctor_names_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "GPU 0" in out
    assert "sm_" in out
