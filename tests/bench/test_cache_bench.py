"""The core's own bench, on a workload small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chatkv.bench import cache_bench, sglang_peer
from chatkv.cli.outcome import invoke


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_bench, "SESSIONS", 6)
    monkeypatch.setattr(cache_bench, "TURNS", 4)


@pytest.mark.parametrize("page", [1, 16])
def test_hits_are_what_the_workload_allows(page: int) -> None:
    run = cache_bench.run_chats("chatkv", page, None)
    hits = 0
    for session in range(6):
        for turn in range(4):
            known = 1000 + 200 * turn if turn else (1000 if session else 0)
            hits += known // page * page
    prompts = 6 * sum(1100 + 200 * turn for turn in range(4))
    assert run.hit_rate == pytest.approx(hits / prompts)
    assert run.evict_us == 0


def test_a_pool_evicts_and_hits_less() -> None:
    free, tight = (cache_bench.run_chats("chatkv", 1, pool) for pool in (None, 2500))
    assert tight.hit_rate < free.hit_rate
    assert tight.evict_us > 0


def test_without_sglang_it_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sglang_peer, "installed", lambda: None)
    monkeypatch.setattr(cache_bench, "run_scale", lambda: cache_bench.Scale({1: 8.0}, {10: 1.0}, 0.1, 5, 2))
    out = tmp_path / "out.json"
    assert invoke(["bench", "cache", "--rounds", "1", "--json", str(out)]) == 0
    told = capsys.readouterr()
    assert sglang_peer.HOW_TO_INSTALL in told.err
    assert "chatkv" in told.out
    trees = {row["tree"] for row in json.loads(out.read_text())["chats"]}
    assert trees == {"chatkv"}


def test_sglang_counts_the_same_hits() -> None:
    if sglang_peer.installed() is None:
        pytest.skip(f"sglang is not installed: {sglang_peer.HOW_TO_INSTALL}")
    for page in (1, 16):
        ours, theirs = (cache_bench.run_chats(name, page, None) for name in ("chatkv", "sglang"))
        assert ours.hit_rate == theirs.hit_rate
