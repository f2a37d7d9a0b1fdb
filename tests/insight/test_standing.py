"""The place in the eviction order that a screen tells is the one the cache then follows."""

from __future__ import annotations

import random

import pytest

from chatkv.insight.mirror import Mirror
from chatkv.insight.standing import standing
from chatkv.kvcache import events as kv
from chatkv.kvcache.radix_cache import RadixCache
from tests.insight.streams import Stream


@pytest.mark.parametrize("grain", ["node", "block"])
@pytest.mark.parametrize("eviction", ["lru", "lfu", "fifo", "mru", "filo", "slru"])
def test_who_is_evicted_was_said_to_be_next(eviction: str, grain: str) -> None:
    rng = random.Random(3)
    mirror = Mirror()
    evicted = 0

    def sink(event: kv.Event) -> None:
        nonlocal evicted
        if isinstance(event, kv.NodeEvicted | kv.NodeTrimmed) and event.reason == "room":
            evicted += 1
            said = standing(mirror, mirror.nodes[event.node])
            assert (said.place, said.leaves) == (1, event.leaves), said
        mirror.apply(event)

    cache = RadixCache(16, 2, eviction=eviction, grain=grain, log=kv.EventLog(sink))
    prompts: list[list[int]] = [[1, 2, 3]]
    for request in range(1, 150):
        prompt = rng.choice(prompts)[: rng.randint(1, 16)] + [
            rng.randint(1, 4) for _ in range(rng.randint(1, 5))
        ]
        if cache.open(request, prompt) is None:
            continue
        if cache.grow(request, len(prompt)):
            cache.commit(request, prompt[mirror.rows[request].written :])
            prompts = [*prompts[-8:], prompt]
        cache.close(request, "finished")
        if request % 20 == 0:
            node = rng.choice(list(cache.tree.walk()))
            cache.tree.pin(node, not node.pinned)
    assert evicted > 20


def test_it_says_why_not_now(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2], [0])
    stream.store_free(2, 1, [3, 4], [1])
    mirror = stream.mirror
    assert standing(mirror, mirror.nodes[0]).words == "the root is never evicted"
    assert standing(mirror, mirror.nodes[1]).words == "not before the 1 node under it: leaves go first"
    assert standing(mirror, mirror.nodes[2]).words == "evicted next of 1 leaf (least recently used first)"
    stream.store_free(3, 0, [9, 9], [2])
    said = standing(mirror, mirror.nodes[3])
    assert said.words == "evicted as number 2 of 2 leaves (least recently used first), right after node 2"
    assert (said.place, said.before) == (2, 2)
    stream.lock(2, 9)
    assert standing(mirror, mirror.nodes[2]).words == "can't be evicted: 1 request uses it"
