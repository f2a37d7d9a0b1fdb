"""What a queue policy is worth: a trace through the cache core with a window of waiting requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chatkv.bench.trace import TraceResult, run_trace
from chatkv.bench.window import turns
from chatkv.cli.outcome import invoke
from chatkv.kvcache.kinds import make_cache
from chatkv.scheduler.names import POLICIES
from chatkv.scheduler.waiting import WaitingQueue

DATA = Path(__file__).parents[1] / "data"
ALL = 18_432
"""Prompt tokens of the workload: 8 groups of 8 prompts, of 288 tokens each 256 are the group's."""


def served(
    policy: str, *, name: str = "roundrobin", bound: int = 0, window: int = 64, size: int = 16
) -> TraceResult:
    cache = make_cache("radix", 2048 // size, size, strict=True)
    queue = WaitingQueue(policy, bound)
    result = run_trace(cache, DATA / f"wl_gsp_{name}.jsonl", queue=queue, window=window)
    assert result.tokens == ALL
    assert len(result.hits) == len(result.overtaken) == 64
    return result


@pytest.mark.parametrize("size", [1, 16])
def test_round_robin_through_2048_tokens_fcfs_0_lpm_7778_percent(size: int) -> None:
    fcfs, lpm = served("fcfs", size=size), served("lpm", size=size)
    assert (fcfs.hit_tokens, max(fcfs.overtaken)) == (0, 0)
    # Each group's first prompt is computed, the other seven find its 256 tokens.
    assert lpm.hit_tokens == 56 * 256
    assert f"{100 * lpm.hit_tokens / ALL:.2f}" == "77.78"
    assert max(lpm.overtaken) == 49, "the last group's first waits for seven of each group before it"
    assert lpm.hits[:8] == [0] * 8
    assert lpm.hits[8:] == [256] * 56


@pytest.mark.parametrize("policy", [p for p in POLICIES if p != "fcfs"])
def test_every_policy_that_looks_finds_them(policy: str) -> None:
    assert served(policy).hit_tokens == 56 * 256


@pytest.mark.parametrize(
    ("name", "bound", "hits", "most"),
    [
        ("roundrobin", 1, 8_704, 1),
        ("roundrobin", 8, 14_080, 8),
        ("roundrobin", 16, 14_336, 16),
        ("roundrobin", 32, 14_336, 32),
        ("shuffled", 8, 13_056, 8),
        ("shuffled", 16, 14_080, 16),
        ("shuffled", 32, 14_336, 32),
        ("shuffled", 0, 14_336, 40),
    ],
)
def test_what_aging_costs(name: str, bound: int, hits: int, most: int) -> None:
    result = served("lpm", name=name, bound=bound)
    assert (result.hit_tokens, max(result.overtaken)) == (hits, most)


def test_a_small_window_sees_less_and_one_is_file_order() -> None:
    assert served("lpm", window=1).hit_tokens == 0
    assert served("fcfs", window=8).hit_tokens == 0
    # The next prompt of the group that was just served comes into view: 54 of 56 are found.
    assert served("lpm", window=8).hit_tokens == 54 * 256
    with pytest.raises(ValueError, match="at least 1, got 0"):
        next(turns([], make_cache("none", 8, 4), WaitingQueue(), 0))


def test_the_command_tells_policy_window_and_overtaking(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    command = ["bench", "trace", str(DATA / "wl_gsp_roundrobin.jsonl"), "--num-blocks", "128"]
    options = ["--strict-blocks", "--policy", "lpm", "--window", "64", "--max-overtaken", "0"]
    assert invoke([*command, *options, "--json", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "policy lpm window 64 max overtaken 0" in shown.replace("_", " ")
    assert "77.78" in shown
    assert "overtaken, most 49" in shown
    written = json.loads(out.read_text())
    assert max(written["overtaken"]) == 49
    assert written["settings"]["policy"] == "lpm"
    for bad in (["--policy", "best"], ["--window", "0"], ["--max-overtaken", "-1"]):
        assert invoke([*command, *bad]) == 2
        error = capsys.readouterr().err
        assert bad[0] in error
        assert error.count("\n") == 1


def test_a_line_s_priority_goes_first_and_a_bad_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    lines: list[dict[str, object]] = [
        {"prompt": [id] * 5, "output": [1], "priority": priority}
        for id, priority in enumerate((0, 2, -1, "high", 2.5, 5000), start=1)
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    result = run_trace(make_cache("radix", 64, 4), path, queue=WaitingQueue(), window=3)
    assert result.overtaken == [1, 0, 0]
    assert len(result.bad_lines) == 3
    assert all("priority must be a whole number from -1000 to 1000" in line for line in result.bad_lines)
