"""The workload of chats: the same for the same seed, and measured for real with the real model."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from chatkv.bench import worker
from chatkv.bench.report import medians, percentile, show
from chatkv.bench.workload import Workload, scripts
from chatkv.cli.outcome import invoke
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Sampling
from chatkv.errors import UsageError


def test_a_seed_gives_the_same_words() -> None:
    workload = Workload(sessions=5, turns=3, groups=2)
    first, again = scripts(workload), scripts(workload)
    assert first == again
    assert scripts(Workload(sessions=5, turns=3, groups=2, seed=1)) != first
    assert [s.system for s in first[:2]] == [s.system for s in first[2:4]]
    assert len({s.system for s in first}) == 2
    assert all(len(turn.split()) == workload.user_words for s in first for turn in s.turns)


def test_sizes_are_checked() -> None:
    with pytest.raises(UsageError, match="--answer-tokens"):
        Workload(answer_tokens=0).validate()


def test_percentiles_and_figures() -> None:
    assert percentile([], 0.5) == 0
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([2, 1], 0.5) == 1
    # The nearest rank: the 95th of a hundred, the 7th, the first, the last.
    hundred = list(range(1, 101))
    assert [percentile(hundred, share) for share in (0.95, 0.07, 0.0, 1.0)] == [95, 7, 1, 100]
    assert show(1234.0) == "1,234"
    assert show(1.239) == "1.24"
    assert show(0.000123) == "0.00012"


def test_whatever_ends_a_measured_run_comes_back_as_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no memory\n  at 0x1")

    monkeypatch.setattr("chatkv.bench.chats.run_chats", fail)
    asked = {
        "kind": "Workload",
        "config": asdict(EngineConfig()),
        "workload": asdict(Workload()),
        "sampling": asdict(Sampling()),
    }
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(asked)))
    worker.main()
    assert json.loads(capsys.readouterr().out) == {
        "error": "a measured run failed: RuntimeError: no memory at 0x1"
    }


@pytest.mark.model
@pytest.mark.usefixtures("smollm2_folder")
def test_caches_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    options = [
        "--sessions",
        "2",
        "--groups",
        "1",
        "--turns",
        "2",
        "--answer-tokens",
        "4",
        "--num-blocks",
        "64",
    ]
    assert invoke(["bench", *options, "--system-words", "60", "--json", str(out)]) == 0
    assert "radix" in capsys.readouterr().out
    runs = json.loads(out.read_text())["runs"]
    (radix,), (none,) = runs["radix"], runs["none"]
    assert radix["prompt_tokens"] == none["prompt_tokens"]
    assert radix["requests"] == none["requests"] == 4
    assert radix["output_tokens"] == none["output_tokens"] == 16
    for run in (radix, none):
        assert run["reused_tokens"] + run["computed_tokens"] == run["prompt_tokens"]
        assert run["failed"] == []
        assert run["peak_memory"] > 100 << 20
        assert 0 < run["forward_s"] <= run["step_s"] <= run["wall_s"]
    # The second turns share at least the system prompt and the first turn.
    assert radix["reused_tokens"] > radix["prompt_tokens"] // 3
    assert none["reused_tokens"] == 0
    assert medians([radix])["hit rate, %"] > 30
