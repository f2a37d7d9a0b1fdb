"""The picture held still while the engine goes on."""

from __future__ import annotations

import pytest

from chatkv.engine.stats import Counts, Meter
from chatkv.insight.nodes import BlockState
from chatkv.kvcache.events import Event, EventLog
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.tui import feed as feeds
from chatkv.tui.feed import FAINT_S, GHOST_S, Feed


@pytest.mark.parametrize(
    ("copied_at_once", "held_back"),
    [(100, 100), (0, 1000), (0, 12)],
    ids=["copied", "held back", "held back, then copied"],
)
def test_a_frozen_picture_stays_and_catches_up(
    copied_at_once: int, held_back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "COPIED_AT_ONCE", copied_at_once)
    monkeypatch.setattr(feeds, "HELD_BACK", held_back)
    events: list[Event] = []
    cache = RadixCache(32, 4, log=EventLog(events.append))
    feed = Feed()

    def run(request: int) -> None:
        assert cache.open(request, range(request * 100, request * 100 + 9), session="s") is not None
        assert cache.grow(request, 9)
        cache.commit(request, range(request * 100, request * 100 + 9))
        cache.close(request, "finished")
        feed.take(tuple(events), 0.0)
        events.clear()

    run(1)
    feed.take_recent()
    before = (feed.mirror.seq, len(feed.mirror.nodes))
    feed.freeze(True)
    for request in (2, 3, 4):
        latest = feed.latest
        run(request)
        feed.fade(1000.0 * request)
        assert feed.frozen
        assert (feed.mirror.seq, len(feed.mirror.nodes)) == before
        assert feed.latest > latest
        assert feed.take_recent() == []
    feed.freeze(False)
    assert not feed.frozen
    assert feed.mirror.seq == feed.latest
    assert len(feed.mirror.nodes) > before[1]
    assert feed.take_recent()
    assert feed.mirror.gaps == []
    assert feed.mirror.faults == []


def after_an_eviction() -> Feed:
    """Two prompts that each fill the pool, at 100 s and at 200 s."""
    events: list[Event] = []
    cache = RadixCache(4, 4, log=EventLog(events.append))
    feed = Feed()
    for request, wall in ((1, 100.0), (2, 200.0)):
        assert cache.open(request, [request] * 13) is not None
        assert cache.grow(request, 13)
        cache.commit(request, [request] * 13)
        cache.close(request, "finished")
        feed.take(events, wall)
        events.clear()
    return feed


def test_a_ghost_stays_a_short_while_also_when_nothing_more_happens() -> None:
    feed = after_an_eviction()
    mirror = feed.mirror
    ghosts = len(mirror.ghosts)
    assert ghosts
    feed.fade(200.0)
    feed.dirty = False
    feed.fade(200.0 + FAINT_S - 0.1)
    assert (len(feed.faint), feed.dirty) == (0, False)
    feed.fade(200.0 + FAINT_S + 0.1)
    assert (len(feed.faint), feed.dirty) == (ghosts, True)
    feed.fade(200.0 + GHOST_S - 0.2)
    feed.dirty = False
    feed.fade(200.0 + GHOST_S - 0.1)
    assert (len(mirror.ghosts), feed.dirty) == (ghosts, False)
    version = mirror.structure_version
    feed.fade(200.0 + GHOST_S + 0.1)
    assert (len(mirror.ghosts), feed.dirty) == (0, True)
    assert mirror.structure_version > version
    assert BlockState.EVICTED not in mirror.block_states()
    assert mirror.check() == []


def test_evictions_leave_the_minute_also_when_nothing_more_happens() -> None:
    feed = after_an_eviction()
    feed.fade(200.5)
    told = feed.evictions_a_minute
    assert told == feed.mirror.totals.evictions > 0
    feed.fade(220.0)
    feed.fade(259.8)
    assert feed.eviction_bars == (told, *[0] * 11)
    feed.dirty = False
    feed.fade(259.9)
    assert (feed.evictions_a_minute, feed.dirty) == (told, False)
    feed.freeze(True)
    feed.fade(300.0)
    assert feed.evictions_a_minute == told
    feed.freeze(False)
    feed.fade(300.0)
    assert (feed.evictions_a_minute, feed.eviction_bars, feed.dirty) == (0, (), True)


def test_the_engines_figures_stand_still_with_the_picture() -> None:
    meter = Meter()
    counts = Counts(0, 0, 0, 0, 4, 0)
    feed = Feed()
    assert feed.stats is None
    first = meter.stats(counts)
    feed.take_stats(first)
    feed.freeze(True)
    meter.began(10, 4, 0.1)
    second = meter.stats(counts)
    feed.take_stats(second)
    assert feed.stats is first
    feed.freeze(False)
    assert feed.stats is second
