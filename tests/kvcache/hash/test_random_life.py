"""Random lives of requests; the records fold to the live structures after every operation."""

from __future__ import annotations

import random

import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import ChildrenMoved, Event, EventLog, NodeEvicted
from chatkv.kvcache.hash_cache import HashCache
from tests.kvcache.test_random_life import drive


def compare(mirror: Mirror, cache: HashCache) -> None:
    assert mirror.check() == []
    assert mirror.gaps == []
    assert (mirror.free, mirror.evictable, mirror.protected) == (cache.free, cache.evictable, cache.protected)
    assert {
        node.id: (node.blocks.tolist(), node.tokens.tobytes(), node.namespace, node.locks, node.last_seq)
        for node in mirror.nodes.values()
        if node.id
    } == {
        entry.id: (
            [entry.block],
            entry.tokens,
            entry.namespace,
            int(cache.pool.refs[entry.block]),
            entry.last,
        )
        for entry in cache.index
    }
    first = {entry.prefix: cache.index.first(entry).id for entry in cache.index}
    assert {node.id: node.parent for node in mirror.nodes.values() if node.id} == {
        entry.id: first.get(entry.parent, 0) for entry in cache.index
    }
    assert {r: (row.blocks, row.written) for r, row in mirror.rows.items()} == {
        r: (row.blocks.array.tolist(), len(row.tokens)) for r, row in cache.rows.items()
    }


class Compared(HashCache):
    """Compares with its mirror whenever its integrity is checked."""

    mirror: Mirror

    def check_integrity(self) -> None:
        super().check_integrity()
        compare(self.mirror, self)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_hash_survives_any_order_of_events_and_folds(seed: int, block_size: int) -> None:
    mirror = Mirror()
    cache = Compared(24, block_size, log=EventLog(mirror.apply))
    cache.mirror = mirror
    assert drive(cache, 250, seed) > 0


def test_duplicates_forks_and_lookups_fold_and_match() -> None:
    """Few prompts, many at once: duplicates are the rule, and nodes outlive what they were stored under."""
    rng = random.Random(5)
    mirror = Mirror()
    events: list[Event] = []

    def sink(event: Event) -> None:
        events.append(event)
        mirror.apply(event)

    cache = HashCache(40, 2, log=EventLog(sink))
    prompts = [[rng.randrange(2) for _ in range(rng.randrange(3, 24))] for _ in range(4)]
    todo: dict[int, list[int]] = {}
    for request in range(1, 400):
        prompt, space = rng.choice(prompts), rng.choice(["", "", "salt"])
        if rng.random() < 0.2 and todo:
            parent = rng.choice(list(todo))
            if cache.fork(parent, request) is not None:
                todo[request] = todo[parent].copy()
        else:
            matched = mirror.match(prompt[:-1], space)
            assert matched[1] == cache.peek(prompt, space)
            opened = cache.open(request, prompt, namespace=space, reuse=rng.random() < 0.7)
            if opened is not None:
                todo[request] = prompt[opened.cached :]
                row = cache.row(request)
                assert [mirror.block_node(b) for b in row.blocks.array] == (
                    matched[0] if opened.cached else []
                )
        cache.check_integrity()
        compare(mirror, cache)
        while todo and (len(todo) > 5 or rng.random() < 0.6):
            chosen = rng.choice(list(todo))
            step, todo[chosen] = todo[chosen][:5], todo[chosen][5:]
            written = len(cache.row(chosen).tokens)
            if not step or not cache.grow(chosen, written + len(step)):
                cache.close(chosen, rng.choice(["finished", "aborted", "preempted"]))
                del todo[chosen]
            else:
                cache.commit(chosen, step)
            cache.check_integrity()
            compare(mirror, cache)
    moved = sum(isinstance(event, ChildrenMoved) for event in events)
    reasons = {event.reason for event in events if isinstance(event, NodeEvicted)}
    assert moved > 0
    assert reasons == {"room", "superseded"}

    again = Mirror()
    again.apply_all(events)
    compare(again, cache)


def test_an_answer_that_is_given_again_takes_the_place_of_the_first() -> None:
    mirror = Mirror()
    cache = HashCache(60, 4, log=EventLog(mirror.apply))
    for request in (1, 2):
        opened = cache.open(request, range(10), session="a")
        assert opened is not None
        for token in range(opened.cached, 32):
            assert cache.grow(request, token + 1)
            cache.commit(request, [token])
            cache.check_integrity()
        cache.close(request, "finished")
    assert (cache.free, len(mirror.nodes) - 1) == (52, 8)
    assert [node.id for node in mirror.nodes.values() if mirror.left_behind(node)] == []
