"""Pins: what a person keeps for last, how much of it, and what becomes of it."""

from __future__ import annotations

import pytest

from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.errors import CacheError
from chatkv.kvcache.events import NodePinned
from chatkv.kvcache.radix_cache import RadixCache
from tests.kvcache.lives import Watched
from tests.kvcache.trees import node_of

A, B, C = list(range(100, 140)), list(range(200, 240)), list(range(300, 340))


def pinned(life: Watched) -> list[list[int]]:
    return sorted(node.tokens.tolist() for node in life.cache.tree.walk() if node.pinned)


def held(cache: KVCache) -> list[int]:
    """The first token of every node."""
    assert isinstance(cache, RadixCache)
    return sorted(int(node.tokens[0]) for node in cache.tree.walk())


def test_a_pinned_node_is_evicted_last_but_it_is() -> None:
    life = Watched(12, 4, strict=True)
    for request, tokens in enumerate((A, B, C)):
        life.whole(request, tokens[:16])
    life.cache.pin(node_of(life.cache.tree, A[:16]).id)  # the least recently used
    life.open(9, range(8))
    assert life.cache.grow(9, 16)
    assert held(life.cache) == [100, 300]
    assert life.cache.grow(9, 32)
    assert held(life.cache) == [100]
    life.open(10, [7])
    assert life.cache.grow(10, 1)  # a pin orders eviction, it forbids nothing
    assert held(life.cache) == []
    assert life.cache.tree.pinned == {}
    life.cache.check_integrity()


def test_unpinned_it_is_as_old_as_it_was() -> None:
    life = Watched(12, 4, strict=True)
    for request, tokens in enumerate((A, B, C)):
        life.whole(request, tokens[:16])
    node = node_of(life.cache.tree, A[:16])
    life.cache.pin(node.id)
    life.cache.pin(node.id)  # twice is once
    life.cache.pin(node.id, False)
    assert len(life.of(NodePinned)) == 2
    life.open(9, range(8))
    assert life.cache.grow(9, 16)
    assert held(life.cache) == [200, 300]


def test_the_count_of_pinned_blocks_is_bounded() -> None:
    life = Watched(16, 4, strict=True)
    for request, tokens in enumerate((A, B, C)):
        life.whole(request, tokens[:16])
    nodes = [node_of(life.cache.tree, tokens[:16]).id for tokens in (A, B, C)]
    life.cache.pin(nodes[0])
    life.cache.pin(nodes[1])
    seen = len(life.events)
    with pytest.raises(CacheError, match=f"can't pin node {nodes[2]}: 12 of 16 blocks .* at most 8 .* unpin"):
        life.cache.pin(nodes[2])
    assert len(life.events) == seen
    assert pinned(life) == [A[:16], B[:16]]
    life.cache.pin(nodes[0], False)
    life.cache.pin(nodes[2])
    assert pinned(life) == [B[:16], C[:16]]


def test_the_nodes_above_count_once() -> None:
    life = Watched(16, 4, strict=True)
    life.whole(1, [*A[:16], *B[:8]])
    life.whole(2, [*A[:16], *C[:8]])
    life.cache.pin(node_of(life.cache.tree, B[:8]).id)  # 4 above + 2
    life.cache.pin(node_of(life.cache.tree, C[:8]).id)  # + 2
    life.whole(3, [*A[:16], 1, 2, 3, 4])
    with pytest.raises(CacheError, match="9 of 16"):
        life.cache.pin(node_of(life.cache.tree, [1, 2, 3, 4]).id)


def test_a_split_pins_both_parts() -> None:
    life = Watched(16, 4, strict=True)
    life.whole(1, A[:16])
    life.cache.pin(node_of(life.cache.tree, A[:16]).id)
    life.whole(2, [*A[:8], *B[:4]])
    assert pinned(life) == [A[:8], A[8:16]]
    assert len(life.cache.tree.pinned) == 2


def test_a_pinned_leaf_grows_no_further() -> None:
    life = Watched(8, 4, strict=True)
    life.open(1, A[:24])
    life.compute(1, A[:16])
    life.cache.pin(node_of(life.cache.tree, A[:16]).id)  # 4 of 8: all that may be
    life.compute(1, A[16:24])
    assert pinned(life) == [A[:16]]
    assert life.nodes == [(A[:16], 1), (A[16:24], 1)]


def test_a_pin_moves_along_when_a_tail_is_superseded() -> None:
    life = Watched(16, 4, strict=False)
    life.whole(1, A[:6])
    life.cache.pin(node_of(life.cache.tree, A[4:6]).id)
    life.whole(2, A[:7])
    assert pinned(life) == [A[4:7]]
    life.whole(3, A[:17])
    assert pinned(life) == [A[4:8]]  # the one block, not the whole of what follows
    assert life.nodes == [(A[:4], 0), (A[4:8], 0), (A[8:16], 0), (A[16:17], 0)]
    life.whole(4, A[:24])
    assert pinned(life) == [A[4:8]]


def test_nothing_above_the_limit_of_nothing() -> None:
    cache = RadixCache(8, 4, max_pinned=0)
    cache.open(1, A[:4])
    cache.grow(1, 4)
    cache.commit(1, A[:4])
    with pytest.raises(CacheError, match=r"1 of 8 blocks .* at most 0"):
        cache.pin(node_of(cache.tree, A[:4]).id)


@pytest.mark.parametrize("node", [0, 7, -1])
def test_an_unknown_node(node: int) -> None:
    life = Watched(8, 4, strict=True)
    life.whole(1, A[:4])
    for value in (True, False):
        with pytest.raises(CacheError, match=f"node {node} is not in the tree"):
            life.cache.pin(node, value)


def test_clear_forgets_pins() -> None:
    life = Watched(8, 4, strict=True)
    life.whole(1, A[:4])
    life.cache.pin(node_of(life.cache.tree, A[:4]).id)
    assert life.cache.clear()
    assert life.cache.tree.pinned == {}
    life.cache.check_integrity()
