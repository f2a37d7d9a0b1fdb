"""The picture held still while the engine goes on."""

from __future__ import annotations

import pytest

from chatkv.engine.stats import Counts, Meter
from chatkv.insight.mirror import Mirror
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
        feed.go_on()
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


def test_a_long_pause_costs_no_frame_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy and what was held back come bit by bit, in order, whenever the picture is let go."""
    monkeypatch.setattr(feeds, "COPIED_AT_ONCE", 0)
    monkeypatch.setattr(feeds, "HELD_BACK", 300)
    now = 0.0

    def tick() -> float:
        nonlocal now
        now += 0.01  # each look at the clock: two bits of work a frame
        return now

    monkeypatch.setattr(feeds, "perf_counter", tick)
    events: list[Event] = []
    cache = RadixCache(4000, 4, log=EventLog(events.append))
    feed, twin = Feed(), Mirror()

    def run(first: int, count: int) -> None:
        for request in range(first, first + count):
            prompt = range(request * 100, request * 100 + 9)
            assert cache.open(request, prompt, session="s") is not None
            assert cache.grow(request, 9)
            cache.commit(request, prompt)
            cache.close(request, "finished")
        feed.take(tuple(events), 0.0)
        twin.apply_all(events, 0.0)
        events.clear()

    def same() -> bool:
        return feed.mirror.seq == twin.seq == feed.latest and list(feed.mirror.nodes) == list(twin.nodes)

    run(1, 700)
    assert same()
    for frames_before_it_goes_on in (0, 1, 3, 90):
        feed.freeze(True)
        before = (feed.mirror.seq, list(feed.mirror.nodes))
        run(len(twin.nodes) + 1000, 100)
        for _ in range(frames_before_it_goes_on):
            feed.go_on()
            run(len(twin.nodes) + 1000, 1)
            assert (feed.mirror.seq, list(feed.mirror.nodes)) == before
        feed.freeze(False)
        frames = 0
        while not same():
            feed.go_on()
            frames += 1
        assert (frames > 3) == (frames_before_it_goes_on < 90)  # by then the live one had caught up
        assert feed.mirror.check() == feed.mirror.gaps == []
    feed.freeze(True)
    run(5000, 100)
    feed.freeze(False)
    feed.freeze(True)  # again, before it has caught up
    seq = feed.mirror.seq
    assert seq < feed.latest
    feed.go_on()
    assert feed.mirror.seq == seq
    feed.freeze(False)
    while not same():
        feed.go_on()


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
