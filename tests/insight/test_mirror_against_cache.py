"""A real random run, folded, equals the live structures after every operation."""

from __future__ import annotations

import random

import numpy as np
import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import Event, EventLog
from chatkv.kvcache.radix_cache import RadixCache


def live_tree(cache: RadixCache) -> dict[int, tuple[object, ...]]:
    return {
        node.id: (
            node.parent.id if node.parent else -1,
            node.namespace,
            node.tokens.tolist(),
            node.blocks.tolist(),
            node.locks,
            node.hits,
            node.last,
            node.pinned,
        )
        for node in cache.tree.walk()
    }


def mirrored_tree(mirror: Mirror) -> dict[int, tuple[object, ...]]:
    return {
        node.id: (
            node.parent,
            node.namespace,
            node.tokens.tolist(),
            node.blocks.tolist(),
            node.locks,
            node.hits,
            node.last_seq,
            node.pinned,
        )
        for node in mirror.nodes.values()
        if node.id
    }


def compare(mirror: Mirror, cache: RadixCache) -> None:
    assert mirror.check() == []
    assert mirror.gaps == []
    assert mirror.pinned == cache.tree.pinned.keys()
    assert mirrored_tree(mirror) == live_tree(cache)
    assert (mirror.free, mirror.evictable, mirror.protected) == (cache.free, cache.evictable, cache.protected)
    assert {r: (row.blocks, row.written) for r, row in mirror.rows.items()} == {
        r: (row.blocks.array.tolist(), len(row.tokens)) for r, row in cache.rows.items()
    }


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("grain", ["node", "block"])
@pytest.mark.parametrize("block_size", [1, 4])
def test_a_random_run_folds_to_the_live_structures(strict: bool, grain: str, block_size: int) -> None:
    rng = random.Random(block_size * 10 + strict)
    mirror = Mirror()
    events: list[Event] = []

    def sink(event: Event) -> None:
        events.append(event)
        mirror.apply(event)

    cache = RadixCache(24, block_size, strict=strict, grain=grain, log=EventLog(sink))
    prompts: list[list[int]] = [[1, 2, 3, 4, 5]]
    open_rows: dict[int, list[int]] = {}
    for request in range(1, 120):
        prompt = rng.choice(prompts)[: rng.randint(1, 40)] + [
            rng.randint(1, 4) for _ in range(rng.randint(1, 9))
        ]
        space = rng.choice(["", "", "", "salt"])
        matched = mirror.match(np.array(prompt[:-1]), space)[1]
        assert matched == cache.peek(prompt, space)
        opened = cache.open(request, prompt, session=f"s{request % 3}", namespace=space)
        compare(mirror, cache)
        if opened is not None:
            assert opened.cached <= matched
            open_rows[request] = prompt[opened.cached :]
        while open_rows and (len(open_rows) > 3 or rng.random() < 0.6):
            chosen = rng.choice(list(open_rows))
            step = open_rows[chosen][: rng.randint(1, 8)] or [rng.randint(1, 4)]
            written = len(cache.rows[chosen].tokens)
            if rng.random() < 0.2 or not cache.grow(chosen, written + len(step)):
                reason = rng.choice(["finished", "aborted", "preempted"])
                prompts.append(cache.rows[chosen].tokens.array.tolist())
                cache.close(chosen, reason)
                del open_rows[chosen]
            else:
                cache.commit(chosen, step)
                open_rows[chosen] = open_rows[chosen][len(step) :]
            compare(mirror, cache)
        if rng.random() < 0.2 and (nodes := list(cache.tree.walk())):
            cache.tree.pin(rng.choice(nodes), rng.random() < 0.5)
            compare(mirror, cache)
    kinds = {type(event).__name__ for event in events}
    assert {"PrefixReused", "NodePinned", "NodeSplit", "RowRepointed", "BlocksFreed"} <= kinds
    assert "NodeTrimmed" in kinds or grain == "node" or block_size > 1
    assert "NodeEvicted" in kinds
    assert ("SlotsCopied" in kinds) == (not strict and block_size > 1)

    again = Mirror()
    again.apply_all(events)
    assert mirrored_tree(again) == mirrored_tree(mirror)
    assert (again.block_states() == mirror.block_states()).all()
