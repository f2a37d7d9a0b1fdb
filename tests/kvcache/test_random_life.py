"""Random lives of requests over a pool so small that eviction never rests."""

from __future__ import annotations

import random

import pytest

from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.events import EventLog
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.radix_cache import RadixCache
from tests.kvcache.memory import Memory, content


def drive(cache: KVCache, steps: int, seed: int) -> int:
    """Random opens, chunked writes, decodes, closes; every read must find what was written."""
    rng = random.Random(seed)
    size = cache.block_size
    memory = Memory(cache)
    live: dict[int, list[int]] = {}
    targets: dict[int, int] = {}
    next_id, reused = 0, 0
    vocabulary = 3
    for _ in range(steps):
        action = rng.random()
        if action < 0.35 or not live:
            base = [] if not live or rng.random() < 0.5 else list(rng.choice(list(live.values())))
            prompt = base[: rng.randrange(len(base) + 1)]
            prompt += [rng.randrange(vocabulary) for _ in range(rng.randrange(1, 3 * size))]
            before = (cache.free, cache.evictable)
            opened = cache.open(
                next_id, prompt, namespace=rng.choice(["", "", "a"]), session=str(next_id % 4)
            )
            if opened is None:
                assert (cache.free, cache.evictable) == before
                assert next_id not in cache.rows
            else:
                memory.copy(opened.copies)
                assert opened.cached < len(prompt)
                reused += opened.cached
                live[next_id] = prompt
                targets[next_id] = len(prompt)
            next_id += 1
        elif action < 0.8:
            request = rng.choice(list(live))
            tokens = live[request]
            done = len(cache.row(request).tokens)
            if done == len(tokens):
                tokens.append(rng.randrange(vocabulary))
            upto = min(len(tokens), done + rng.randrange(1, 2 * size))
            if not cache.grow(request, upto):
                cache.close(request, "preempted")
                del live[request]
            else:
                memory.write(request, done, content(tokens, cache.row(request).namespace)[done:upto])
                cache.commit(request, tokens[done:upto])
        else:
            request = rng.choice(list(live))
            cache.close(request, rng.choice(["finished", "aborted", "preempted"]))
            del live[request]
        cache.check_integrity()
        for request, tokens in live.items():
            row = cache.row(request)
            got = memory.read(request)
            expected = content(tokens, row.namespace)[: len(row.tokens)]
            assert got == expected, f"request {request} reads KV that is not its own"
            assert row.tokens.array.tolist() == tokens[: len(got)]
    for request in list(live):
        cache.close(request, "finished")
    cache.check_integrity()
    assert cache.protected == 0
    assert cache.clear()
    assert cache.free == cache.num_blocks
    cache.check_integrity()
    return reused


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("strict", [False, True])
def test_radix_survives_any_order_of_events(seed: int, block_size: int, strict: bool) -> None:
    cache = RadixCache(24, block_size, strict=strict, grain="block" if seed % 2 else "node", log=EventLog())
    assert drive(cache, 250, seed) > 0


@pytest.mark.parametrize("seed", range(3))
def test_none_survives_and_never_reuses(seed: int) -> None:
    assert drive(NoneCache(24, 4), 250, seed) == 0
