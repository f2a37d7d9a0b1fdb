"""The core's own bench, on a workload small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import run as measure
from benchmarks.core import chats as cache_bench
from benchmarks.core import scale as cache_bench_scale
from benchmarks.core import sglang_peer


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_bench, "SESSIONS", 6)
    monkeypatch.setattr(cache_bench, "TURNS", 4)
    monkeypatch.setattr(cache_bench_scale, "LEAVES", (600, 700))
    monkeypatch.setattr(cache_bench_scale, "NODES", 400)


@pytest.mark.parametrize(("name", "page"), [("radix", 1), ("radix", 16), ("hash", 16)])
def test_hits_are_what_the_workload_allows(name: str, page: int) -> None:
    run = cache_bench.run_chats(name, page, None)
    hits = 0
    for session in range(6):
        for turn in range(4):
            known = 1000 + 200 * turn if turn else (1000 if session else 0)
            hits += known // page * page
    prompts = 6 * sum(1100 + 200 * turn for turn in range(4))
    assert run.hit_rate == pytest.approx(hits / prompts)
    assert run.evict_us == 0


def test_a_pool_evicts_and_hits_less() -> None:
    free, tight = (cache_bench.run_chats("radix", 1, pool) for pool in (None, 2500))
    assert tight.hit_rate < free.hit_rate
    assert tight.evict_us > 0


def test_the_pool_of_hashed_blocks_evicts_and_hits_less() -> None:
    free, tight = (cache_bench.run_chats("hash", 16, pool) for pool in (None, 2500))
    assert tight.hit_rate < free.hit_rate


def test_growth() -> None:
    scale = cache_bench_scale.run_scale()
    assert 4 < scale.tree_bytes[16] < scale.open_bytes[16] < 24
    assert set(scale.evict_us) == {600, 700}
    assert (scale.tokens, scale.nodes) == (400 * 112 + 100 * 16, 500)
    assert set(scale.longest_ms) == {"insert", "match", "lock", "unlock", "evict"}


@pytest.mark.parametrize("cache", ["radix", "hash"])
def test_without_sglang_it_says_how_to_install_it(
    cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sglang_peer, "installed", lambda: None)
    out = tmp_path / "out.json"
    assert measure(["core", "--cache", cache, "--rounds", "2", "--json", str(out)]) == 0
    told = capsys.readouterr()
    assert sglang_peer.HOW_TO_INSTALL in told.err
    assert cache in told.out
    written = json.loads(out.read_text())
    assert {row["tree"] for row in written["chats"]} == {cache}
    assert all(len(row["runs"]) == 2 for row in written["chats"])
    assert (written["scale"] is None) == (cache == "hash")
    assert "sglang" not in written["versions"]


def test_an_unknown_cache_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure(["core", "--cache", "none"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_hit_rates_that_differ_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str, page: int, pool: int | None) -> cache_bench.ChatRun:
        return cache_bench.ChatRun(1.0, 1.0, 0.0, 0.1, 0.5 if name == "radix" else 0.4)

    monkeypatch.setattr(sglang_peer, "installed", lambda: Path("somewhere"))
    monkeypatch.setattr(cache_bench, "run_chats", run)
    assert measure(["core", "--rounds", "1"]) == 1
    told = capsys.readouterr()
    assert "2.0" in told.out
    assert "hit rates of radix and sglang differ at 1 tokens" in told.err


def test_sglang_counts_the_same_hits() -> None:
    if sglang_peer.installed() is None:
        pytest.skip(f"sglang is not installed: {sglang_peer.HOW_TO_INSTALL}")
    for page in (1, 16):
        ours, theirs = (cache_bench.run_chats(name, page, None) for name in ("radix", "sglang"))
        assert ours.hit_rate == theirs.hit_rate
