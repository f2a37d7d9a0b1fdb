"""The last row of each session, after its request is over."""

from __future__ import annotations

import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache import events as kv
from chatkv.kvcache.events import EventLog
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.radix_cache import RadixCache
from tests.insight.streams import Stream


def blocks_of(mirror: Mirror, session: str = "a") -> list[int] | None:
    row = mirror.closed_row(session)
    return None if row is None else row.blocks


def test_the_last_of_a_session_stays_until_it_asks_again(stream: Stream) -> None:
    mirror = stream.mirror
    stream.open(1)
    stream.allocate(1, 0, 1)
    stream.write(1, 3)
    stream.store(1, kv.ROOT, [1, 2], [0], request=1)
    assert blocks_of(mirror) is None, "it is open"
    stream.emit(kv.BlocksFreed, request=1, blocks=[1], reason="finished")
    stream.close(1)
    row = mirror.closed_row("a")
    assert row is not None
    assert (row.request, row.blocks, row.written) == (1, [0, 1], 3)
    assert blocks_of(mirror, "b") is None
    before = mirror.copy()
    stream.open(2)
    assert blocks_of(mirror) is None
    assert blocks_of(before) == [0, 1]
    stream.close(2)
    assert blocks_of(mirror) is None, "that one held nothing"


def test_it_ends_where_others_took_its_blocks(stream: Stream) -> None:
    mirror = stream.mirror
    stream.whole_request(1, 1, [1, 2, 3, 4, 5], [0, 1, 2])
    stream.evict(1)
    assert blocks_of(mirror) == [0, 1, 2], "free, and nobody else's"
    stream.open(2, session="b")
    stream.allocate(2, 1)
    row = mirror.closed_row("a")
    assert row is not None
    assert (row.blocks, row.written) == ([0], 2)
    stream.allocate(2, 0)
    assert blocks_of(mirror) is None


def test_clearing_lets_go_of_all(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2], [0])
    stream.emit(kv.CacheCleared)
    assert blocks_of(stream.mirror) is None


def test_who_was_preempted_asks_again(stream: Stream) -> None:
    stream.open(1)
    stream.allocate(1, 0)
    stream.emit(kv.BlocksFreed, request=1, blocks=[0], reason="preempted")
    stream.close(1, "preempted")
    assert blocks_of(stream.mirror) is None


@pytest.mark.parametrize("kind", [RadixCache, NoneCache])
def test_of_a_real_cache_it_is_the_whole_row(kind: type[RadixCache | NoneCache]) -> None:
    mirror = Mirror()
    cache = kind(8, 4, log=EventLog(mirror.apply))
    assert cache.open(1, list(range(10)), session="a") is not None
    assert cache.grow(1, 10)
    cache.commit(1, list(range(10)))
    cache.close(1, "finished")
    row = mirror.closed_row("a")
    assert row is not None
    assert (len(row.blocks), row.written) == (3, 10)
    assert mirror.check() == []
