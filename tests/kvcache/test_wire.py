"""The KV-event wire: what a router that knows nothing but the wire ends up believing."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from chatkv.kvcache.block_hash import Hash, block_hash
from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.errors import CacheError
from chatkv.kvcache.events import CacheCleared, CacheCreated, Event, EventLog, NodeSplit, RequestClosed
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.radix import RadixTree
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.kvcache.wire import AllBlocksCleared, BlockRemoved, BlockStored, WireEncoder, WireEvent
from tests.kvcache.test_random_life import drive
from tests.kvcache.trees import Slots, ids, put


class Router:
    """Folds the wire, and trusts nothing: each hash stored once, after its parent, and removed once."""

    def __init__(self) -> None:
        self.blocks: dict[Hash, tuple[Hash | None, tuple[int, ...]]] = {}

    def fold(self, event: WireEvent) -> None:
        if isinstance(event, BlockStored):
            parent, size = event.parent_block_hash, event.block_size
            assert len(event.token_ids) == size * len(event.block_hashes)
            for i, digest in enumerate(event.block_hashes):
                assert digest not in self.blocks
                assert parent is None or parent in self.blocks
                tokens = event.token_ids[i * size : (i + 1) * size]
                assert digest == block_hash(parent, ids(*tokens), event.namespace)
                self.blocks[digest] = parent, tokens
                parent = digest
        elif isinstance(event, BlockRemoved):
            for digest in event.block_hashes:
                del self.blocks[digest]
                assert all(parent != digest for parent, _ in self.blocks.values())
        else:
            self.blocks.clear()


def findable(cache: KVCache) -> set[Hash]:
    """The hashes of all full blocks in the cache, from its live structures."""
    if isinstance(cache, HashCache):
        return {entry.hash for entry in cache.index}
    assert isinstance(cache, RadixCache)
    out: set[Hash] = set()
    size = cache.block_size
    for node in cache.tree.walk():
        tokens = np.concatenate([n.tokens for n in cache.tree.path(node)])
        digest = None
        for at in range(0, len(tokens) - size + 1, size):
            digest = block_hash(digest, tokens[at : at + size], node.namespace)
            out.add(digest)
    return out


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("block_size", [1, 4])
@pytest.mark.parametrize("kind", ["radix", "strict", "hash"])
def test_a_router_knows_exactly_the_full_blocks(kind: str, block_size: int, seed: int) -> None:
    encoder, step_by_step, in_runs = WireEncoder(1), Router(), Router()
    cache: KVCache
    compared = 0

    def sink(event: Event) -> None:
        nonlocal compared
        for wire in encoder.feed(event):
            step_by_step.fold(wire)
        if isinstance(event, RequestClosed | CacheCleared):
            for wire in encoder.take():
                in_runs.fold(wire)
            assert set(step_by_step.blocks) == set(in_runs.blocks) == findable(cache)
            compared += bool(in_runs.blocks)

    if kind == "hash":
        cache = HashCache(24, block_size, log=EventLog(sink))
    else:
        grain = "block" if seed % 2 else "node"
        cache = RadixCache(24, block_size, strict=kind == "strict", grain=grain, log=EventLog(sink))
    drive(cache, 200, seed)
    assert compared > 20
    assert not in_runs.blocks  # it ends with a clear


def test_runs_are_joined_only_where_they_continue() -> None:
    encoder, slots = WireEncoder(2), Slots()
    tree = RadixTree(2, log=EventLog(encoder.feed))
    put(tree, slots, [1, 2])
    put(tree, slots, [1, 2, 3, 4])
    put(tree, slots, [1, 2, 5, 6])
    one = block_hash(None, ids(1, 2))
    two, three = block_hash(one, ids(3, 4)), block_hash(one, ids(5, 6))
    assert encoder.take() == [
        BlockStored((one, two), None, (1, 2, 3, 4), 2, ""),
        BlockStored((three,), one, (5, 6), 2, ""),
    ]
    tree.evict(1)
    put(tree, slots, [7, 8])
    tree.evict(1)
    kinds = [type(event).__name__ for event in encoder.take()]
    assert kinds == ["BlockRemoved", "BlockStored", "BlockRemoved"]


def test_a_tail_never_shows() -> None:
    encoder = WireEncoder(4)
    tree = RadixTree(4, strict=False, log=EventLog(encoder.feed))
    upper = put(tree, Slots(), [1, 2, 3, 4]).node
    encoder.take()
    tail = tree.store_tail(upper, ids(5, 6), 9).node
    assert encoder.hashes(tail.id) == ()
    assert encoder.take() == []
    tree.evict(1)
    assert encoder.take() == []
    tree.evict(1)
    assert encoder.take() == [BlockRemoved((block_hash(None, ids(1, 2, 3, 4)),))]


def test_a_trimmed_end_is_removed_from_its_end() -> None:
    encoder = WireEncoder(2)
    tree = RadixTree(2, grain="block", log=EventLog(encoder.feed))
    node = put(tree, Slots(), [1, 2, 3, 4, 5, 6, 7, 8]).node
    hashes = encoder.hashes(node.id)
    encoder.take()
    tree.evict(2)
    assert encoder.take() == [BlockRemoved((hashes[3], hashes[2]))]
    assert encoder.hashes(node.id) == hashes[:2]


def test_a_new_cache_clears_what_was_announced() -> None:
    encoder = WireEncoder(2)
    created = {"num_blocks": 8, "cache": "radix", "eviction": "lru", "grain": "node", "strict": True}
    assert encoder.feed(CacheCreated(seq=1, block_size=4, **created)) == []  # type: ignore[arg-type]
    assert encoder.block_size == 4
    tree = RadixTree(4, log=EventLog(encoder.feed))
    put(tree, Slots(), [1, 2, 3, 4])
    again = encoder.feed(CacheCreated(seq=1, block_size=4, **created))  # type: ignore[arg-type]
    assert again == [AllBlocksCleared()]
    assert [type(event).__name__ for event in encoder.take()] == ["BlockStored", "AllBlocksCleared"]
    with pytest.raises(CacheError, match="node 1 "):
        encoder.hashes(1)


def test_a_stream_joined_in_the_middle_is_refused() -> None:
    encoder = WireEncoder(4)
    with pytest.raises(CacheError, match="node 5 was never stored"):
        encoder.feed(NodeSplit(seq=9, node=5, upper=6, at=4))
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        WireEncoder(0)


def test_hashes_are_the_same_in_every_process() -> None:
    code = (
        "import numpy as np; from chatkv.kvcache.block_hash import block_hash; "
        "print(block_hash(block_hash(None, np.arange(4, dtype=np.int32), 'salt'), "
        "np.arange(4, dtype=np.int32)).hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert seen == {block_hash(block_hash(None, ids(0, 1, 2, 3), "salt"), ids(0, 1, 2, 3)).hex()}


def test_a_hash_depends_on_every_token_before_it() -> None:
    rng = random.Random(5)
    seen = set()
    for _ in range(300):
        chain = [rng.randrange(2) for _ in range(8)]
        seen.add((tuple(chain), block_hash(block_hash(None, ids(*chain[:4])), ids(*chain[4:]))))
    assert len({tokens for tokens, _ in seen}) == len({digest for _, digest in seen})
