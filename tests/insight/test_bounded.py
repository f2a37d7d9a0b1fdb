"""What a mirror remembers of sessions and nodes that are over, kept within bounds."""

from __future__ import annotations

import random

import pytest

from chatkv.insight.closed_rows import ClosedRows
from chatkv.insight.ends import Ends
from chatkv.insight.mirror import Mirror
from chatkv.insight.nodes import Row
from chatkv.kvcache.events import Event, EventLog
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.tui.cache.labels import Labels
from chatkv.tui.cache.tree.picture import TreePicture


def lives(cache: RadixCache, requests: range, seed: int = 3) -> None:
    """Requests of a session each, half of which begin alike."""
    lot = random.Random(seed)
    for request in requests:
        prompt = ([7] * 8 if lot.random() < 0.5 else []) + [lot.randrange(9) for _ in range(6)]
        opened = cache.open(request, prompt, session=f"s{request}")
        assert opened is not None
        assert cache.grow(request, len(prompt))
        cache.commit(request, prompt[opened.cached :])
        cache.close(request, "finished")


def test_rows_of_the_latest_sessions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatkv.insight.closed_rows.SESSIONS_KEPT", 3)
    rows = ClosedRows(10)
    for n, session in enumerate("abcdae"):
        rows.keep(Row(n, session, "", 4, 4, False, blocks=[n]), n)
    assert [rows.of(session) is not None for session in "abcde"] == [True, False, False, True, True]


def test_a_session_that_is_not_kept_by_name_still_ends_where_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chatkv.insight.ends.KEPT", 2)
    ends = Ends()
    for request, session in enumerate("abc"):
        ends.start(request, session)
        ends.reach(request, 10 + request)
        ends.close(request, session)
    assert ends.sessions == {"b": 11, "c": 12}
    assert sorted(ends) == [10, 11, 12]
    assert sorted(ends.copy()) == [10, 11, 12]
    ends.evict(10, 9)  # its end moves on, whosever it is
    assert sorted(ends) == [9, 11, 12]
    ends.evict(9, 0)
    assert sorted(ends) == [11, 12]
    ends.start(7, "a")
    ends.reach(7, 13)
    ends.close(7, "a")
    assert ends.sessions == {"c": 12, "a": 13}
    assert ends._stands.keys() <= ends.sessions.keys()
    ends.clear()
    assert sorted(ends) == []


def test_a_prompt_of_all_sessions_names_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatkv.insight.nodes.SHARERS_KEPT", 4)
    events: list[Event] = []
    cache = RadixCache(64, 4, log=EventLog(events.append))
    mirror = Mirror()
    for request in range(10):
        cache.open(request, [7] * 9, session=f"s{request}")
        cache.grow(request, 9)
        cache.commit(request, [7] * (9 - len(cache.row(request).tokens)))
        cache.close(request, "finished")
    mirror.apply_all(events)
    shared = next(node for node in mirror.nodes.values() if len(node.tokens) == 8)
    assert shared.sessions == {"s6", "s7", "s8", "s9"}
    assert shared.hits == 9
    assert mirror.check() == []


@pytest.mark.parametrize("look_every", [1, 7, 60])
def test_a_picture_that_looks_late_has_the_same_rows(
    monkeypatch: pytest.MonkeyPatch, look_every: int
) -> None:
    """Where the nodes that left are forgotten before anybody asked which, all is looked at anew."""
    monkeypatch.setattr("chatkv.insight.state.DEPARTED_KEPT", 20)
    events: list[Event] = []
    cache = RadixCache(24, 4, log=EventLog(events.append))
    mirror, picture = Mirror(), TreePicture(Labels())
    for n in range(40):
        lives(cache, range(n * 12, n * 12 + 12), seed=n)
        mirror.apply_all(events)
        events.clear()
        assert len(mirror.departed) <= 20
        if n % look_every == 0 or n == 39:
            picture.follow(mirror)
            fresh = TreePicture(Labels())
            fresh.follow(mirror.copy())
            rows = list(picture.rows.rows(0, 1_000))
            assert [row.key for row in rows] == [row.key for row in fresh.rows.rows(0, 1_000)]
            assert mirror.check() == []
    assert mirror.faults == []
