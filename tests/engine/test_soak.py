"""Memory stays flat however many requests there were."""

from __future__ import annotations

import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from chatkv.engine.config import EngineConfig
from tests.engine.soak import Kept, soaking

BOUNDS = (
    "chatkv.insight.closed_rows.SESSIONS_KEPT",
    "chatkv.insight.diary._NAMES",
    "chatkv.insight.ends.KEPT",
    "chatkv.insight.history.KEPT_RECORDS",
    "chatkv.insight.lately.KEPT",
    "chatkv.insight.nodes.SHARERS_KEPT",
    "chatkv.insight.requests.FINISHED_KEPT",
    "chatkv.insight.state.DEPARTED_KEPT",
    "chatkv.kvcache.accounting.SESSIONS_KEPT",
    "chatkv.kvcache.accounting.NAMESPACES_KEPT",
    "chatkv.kvcache.history._SPARE",
    "chatkv.engine.stats.GAPS_KEPT",
    "chatkv.engine.stats.STEPS_KEPT",
    "chatkv.engine.stats.TTFTS_KEPT",
    "chatkv.engine.verifier.ANSWERS_KEPT",
    "chatkv.insight.lately._BURSTS",
    "chatkv.tui.feed.KEPT_RECENT",
)
"""Of what is remembered of requests that are over, or of sessions."""


def small(config: EngineConfig, cache: str) -> EngineConfig:
    return replace(config, cache=cache, num_blocks=48, max_running=24, max_context=128)


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("cache", ["radix", "hash"])
def test_nothing_is_kept_of_requests_that_are_over(
    monkeypatch: pytest.MonkeyPatch, config: EngineConfig, cache: str
) -> None:
    """All bounds are made so small that they are reached soon."""
    for bound in BOUNDS:
        monkeypatch.setattr(bound, 8)
    monkeypatch.setattr("chatkv.kvcache.accounting.GONE_PER_BLOCK", 1)
    requests = 400
    with soaking(small(config, cache)) as soak:
        soak.run(requests)
        before = Kept.now()
        soak.run(requests)
        grown = Kept.now() - before
        assert soak.over > 2 * requests
    # A request that left one object, one number or one text behind would be seen.
    assert grown.objects < requests / 2, grown
    assert grown.blocks < requests, grown
    assert {"length", "refused", "error", "aborted"} <= soak.reasons.keys()


def descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("cache", ["radix", "hash"])
def test_memory_is_flat_over_fifty_thousand_requests(config: EngineConfig, cache: str) -> None:
    with soaking(small(config, cache)) as soak:
        soak.run(10_000)  # every bound is reached
        before, threads, files = Kept.now(), threading.active_count(), descriptors()
        soak.run(40_000)
        grown = Kept.now() - before
    print(f"{cache}: kept of 40,000 requests: {grown}")
    assert grown.objects < 2_000, grown
    assert grown.blocks < 10_000, grown
    assert grown.malloc < 2 << 20, grown
    assert threading.active_count() <= threads
    assert descriptors() <= files


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("numbers")
def test_no_line_of_ours_keeps_memory(config: EngineConfig) -> None:
    with soaking(small(config, "radix")) as soak:
        soak.run(4_000)
        tracemalloc.start()
        try:
            soak.run(2_000)
            before = tracemalloc.take_snapshot()
            soak.run(4_000)
            grown = tracemalloc.take_snapshot().compare_to(before, "lineno")
        finally:
            tracemalloc.stop()
    assert [str(line) for line in grown if line.size_diff > 200_000] == []
