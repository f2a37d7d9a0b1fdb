"""The workload of hot and cold prompts, and what is told of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chatkv.bench.hot_cold import HotCold, asks, figures, spread
from chatkv.cli.outcome import invoke
from chatkv.errors import UsageError


def test_the_same_seed_asks_the_same_and_the_share_is_cold() -> None:
    workload = HotCold(requests=200, cold_percent=5, groups=3)
    first = asks(workload)
    assert first == asks(workload)
    assert first != asks(HotCold(requests=200, cold_percent=5, groups=3, seed=1))
    assert sum(ask.cold for ask in first) == 10
    assert [i for i, ask in enumerate(first) if ask.cold] == list(range(19, 200, 20))
    beginnings = [" ".join(ask.text.split()[: workload.prefix_words]) for ask in first if not ask.cold]
    assert len(set(beginnings)) == 3
    cold = {" ".join(ask.text.split()[: workload.prefix_words]) for ask in first if ask.cold}
    assert len(cold) == 10
    assert cold.isdisjoint(beginnings)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"clients": 0}, "--clients"),
        ({"cold_percent": 100}, "--cold-percent"),
        ({"requests": 19, "cold_percent": 5}, "takes 20 or more"),
    ],
)
def test_sizes_are_checked(options: dict[str, int], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        HotCold(**options).validate()


def run(cold: list[float]) -> dict[str, object]:
    return {
        "wall_s": 2.0,
        "output_tokens": 10,
        "prompt_tokens": 200,
        "reused_tokens": 50,
        "hot_ttft_s": [0.1, 0.3, 0.2],
        "cold_ttft_s": cold,
        "hot_overtaken": [0, 0, 1],
        "cold_overtaken": [7] * len(cold),
    }


def test_figures_keep_hot_and_cold_apart() -> None:
    rows = figures(run([5.0, 9.0]))
    assert (rows["hot requests"], rows["cold requests"]) == (3, 2)
    assert (rows["output tok/s"], rows["hit rate, %"]) == (5, 25)
    assert (rows["hot TTFT p50, ms"], rows["hot TTFT most, ms"]) == (200, 300)
    assert (rows["cold TTFT p50, ms"], rows["cold TTFT p95, ms"]) == (5000, 9000)
    assert (rows["hot overtaken, most"], rows["cold overtaken, p50"]) == (1, 7)
    assert figures(run([]))["cold TTFT p95, ms"] == 0
    assert spread([run([1.0]), run([4.0]), run([2.0])], "cold TTFT most, ms") == (2000, 1000, 4000)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--policy", "fcfs,best"], "--policy"),
        (["--max-overtaken", "8,x"], "--max-overtaken"),
        (["--max-overtaken", "-1"], "--max-overtaken"),
        (["--max-running", "0"], "--max-running"),
        (["--admission", "all"], "--admission"),
    ],
)
def test_a_bad_option_is_one_line(options: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["bench", "queue", *options]) == 2
    error = capsys.readouterr().err
    assert word in error
    assert error.count("\n") == 1


@pytest.mark.model
@pytest.mark.usefixtures("smollm2_folder")
def test_a_real_run_bounds_how_often_the_cold_are_overtaken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    sizes = ["--requests", "20", "--clients", "10", "--cold-percent", "10", "--prefix-words", "50"]
    limits = ["--answer-tokens", "2", "--max-running", "1", "--num-blocks", "64"]
    options = ["--policy", "lpm", "--max-overtaken", "2", "--json", str(out)]
    assert invoke(["bench", "queue", *sizes, *limits, *options]) == 0
    assert "LPM (aging 2)" in capsys.readouterr().out
    (done,) = json.loads(out.read_text())["runs"]["LPM (aging 2)"]
    assert (len(done["hot_ttft_s"]), len(done["cold_ttft_s"])) == (18, 2)
    assert max(done["cold_overtaken"] + done["hot_overtaken"]) == 2
    assert done["failed"] == []
    assert done["output_tokens"] == 40
    assert done["reused_tokens"] > done["prompt_tokens"] // 2
