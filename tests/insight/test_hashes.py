"""Block hashes for the eye: the same as the hash cache's and the wire's."""

from __future__ import annotations

import random

import pytest

from chatkv.insight.hashes import RowHashes, hash_of
from chatkv.insight.mirror import Mirror
from chatkv.kvcache import events as kv
from chatkv.kvcache.block_hash import SessionHashes
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.radix_cache import RadixCache

SIZE = 4


@pytest.mark.parametrize("kind", [RadixCache, HashCache])
@pytest.mark.parametrize("seed", range(12))
def test_each_full_block_of_a_row_has_the_hash_of_the_tokens_up_to_it(
    kind: type[RadixCache | HashCache], seed: int
) -> None:
    rng = random.Random(seed)
    mirror = Mirror()
    cache = kind(40, SIZE, log=kv.EventLog(mirror.apply))
    shown, open_rows = RowHashes(), dict[int, tuple[list[int], str]]()
    for request in range(1, 30):
        namespace = rng.choice(["", "", "lora"])
        prompt = [rng.randrange(2) for _ in range(rng.randrange(2, 30))]
        opened = cache.open(request, prompt, namespace=namespace)
        if opened is None:
            victim = next(iter(open_rows))
            cache.close(victim, "finished")
            del open_rows[victim]
            continue
        tokens = prompt + [rng.randrange(2) for _ in range(rng.randrange(6))]
        written = opened.cached
        while written < len(tokens):
            step = min(len(tokens), written + rng.randrange(1, 9))
            if not cache.grow(request, step):
                break
            cache.commit(request, tokens[written:step])
            written = step
            row = mirror.rows[request]
            told = shown.of(mirror, row)
            true = SessionHashes(SIZE).chain("", namespace, _ints(tokens[:written]))
            assert len(told) == len(row.blocks)
            for at, found in enumerate(told):
                in_tree = mirror.block_node(row.blocks[at]) is not None
                assert found == (true[at] if in_tree and at < len(true) else None)
                if in_tree:
                    assert hash_of(mirror, row.blocks[at]) == found
            # Whoever looks for the first time sees the same.
            assert RowHashes().of(mirror, row) == told
        if rng.random() < 0.6:
            cache.close(request, "finished")
        else:
            open_rows[request] = (tokens, namespace)
    assert not mirror.faults


def _ints(tokens: list[int]) -> kv.Int32Array:
    from tests.insight.streams import ints

    return ints(*tokens)


def test_a_free_block_has_none() -> None:
    mirror = Mirror()
    RadixCache(8, SIZE, log=kv.EventLog(mirror.apply))
    assert hash_of(mirror, 3) is None
