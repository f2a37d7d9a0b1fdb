"""Bad input: the exception names the fault and the object, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.check import check_tree
from chatkv.kvcache.errors import (
    CacheError,
    DuplicateRequestError,
    IntegrityError,
    ReleaseError,
    UnknownRequestError,
)
from chatkv.kvcache.eviction import STRATEGIES
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.radix import RadixTree
from chatkv.kvcache.radix_cache import RadixCache
from tests.kvcache.trees import Slots, ids, node_of, put

KINDS: list[type[KVCache]] = [RadixCache, HashCache, NoneCache]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, -4])
def test_sizes_below_one(kind: type[KVCache], size: int) -> None:
    with pytest.raises(ValueError, match=f"block_size must be at least 1, got {size}"):
        kind(8, size)
    with pytest.raises(ValueError, match=f"num_blocks must be at least 1, got {size}"):
        kind(size, 4)


@pytest.mark.parametrize("kind", [RadixCache, HashCache, RadixTree])
def test_unknown_options(kind: Callable[..., object]) -> None:
    sizes = (4,) if kind is RadixTree else (8, 4)
    with pytest.raises(ValueError, match="'lrv'"):
        kind(*sizes, eviction="lrv")
    with pytest.raises(ValueError, match="grain 'token': choose node or block"):
        kind(*sizes, grain="token")


def test_an_unknown_strategy_is_told_the_names() -> None:
    with pytest.raises(ValueError, match=f"'lrv': choose one of {', '.join(STRATEGIES)}"):
        RadixCache(8, 4, eviction="lrv")
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        RadixTree(0)


@pytest.mark.parametrize("part", [-0.1, 1.5])
def test_pins_are_a_part_of_the_pool(part: float) -> None:
    with pytest.raises(ValueError, match=f"from 0 to 1, got {part}"):
        RadixCache(8, 4, max_pinned=part)


def busy(kind: type[KVCache]) -> KVCache:
    """Request 1 has written 6 of its tokens, request 2 is over."""
    cache = kind(8, 4)
    for request in (2, 1):
        cache.open(request, [request] * 6)
        cache.grow(request, 6)
        cache.commit(request, [request] * 6)
    cache.close(2, "finished")
    return cache


def state(cache: KVCache) -> tuple[object, ...]:
    rows = [(id, row.tokens.array.tolist(), row.blocks.array.tolist()) for id, row in cache.rows.items()]
    pool = cache.pool
    return cache.log.clock, rows, pool.free_blocks().tolist(), pool.refs.tolist(), pool.cached.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("misuse", "error", "fault"),
    [
        (lambda c: c.grow(7, 4), UnknownRequestError, "request 7 has no row"),
        (lambda c: c.commit(7, [1]), UnknownRequestError, "request 7 has no row"),
        (lambda c: c.close(7, "finished"), UnknownRequestError, "request 7 has no row"),
        (lambda c: c.fork(7, 8), UnknownRequestError, "request 7 has no row"),
        (lambda c: c.close(2, "finished"), UnknownRequestError, "request 2 has no row"),
        (lambda c: c.open(1, [1]), DuplicateRequestError, "request 1 already has a row"),
        (lambda c: c.fork(1, 1), DuplicateRequestError, "request 1 already has a row"),
        (lambda c: c.open(3, []), ValueError, "request 3: a prompt needs at least one token"),
        (lambda c: c.open(3, [[1, 2]]), ValueError, "flat sequence of whole numbers"),
        (lambda c: c.open(3, [1.5]), ValueError, "flat sequence of whole numbers"),
        (lambda c: c.open(3, [1], headroom=-1), ValueError, "request 3: headroom .* got -1"),
        (lambda c: c.open(3, [5, 2**32]), ValueError, "fit in 32 bits"),
        (lambda c: c.peek([-(2**31) - 1, 5]), ValueError, "fit in 32 bits"),
        (lambda c: c.peek("text"), ValueError, "flat sequence of whole numbers"),
        (lambda c: c.grow(1, -1), ValueError, "request 1: can't grow to -1 tokens"),
        (lambda c: c.commit(1, [1, 2, 3]), CacheError, "request 1: 3 tokens committed, .* room for 2"),
        (lambda c: c.commit(1, [0.5]), ValueError, "flat sequence of whole numbers"),
        (lambda c: c.close(1, "bored"), ValueError, "request 1: unknown reason 'bored': choose one of fin"),
    ],
)
def test_misuse_of_a_cache(
    kind: type[KVCache], misuse: Callable[[KVCache], object], error: type[Exception], fault: str
) -> None:
    cache = busy(kind)
    before = state(cache)
    with pytest.raises(error, match=fault):
        misuse(cache)
    assert state(cache) == before
    cache.check_integrity()


def tree_state(tree: RadixTree) -> tuple[object, ...]:
    nodes = [(n.id, n.tokens.tolist(), n.locks, n.last, n.hits) for n in tree.walk()]
    return tree.log.clock, nodes, tree.evictable, tree.protected, tree.leaves.ids()


@pytest.mark.parametrize(
    ("misuse", "error", "fault"),
    [
        (lambda t: t.unlock(node_of(t, [9])), ReleaseError, "node 4 is unlocked more often"),
        (lambda t: t.evict(-1), ValueError, "can't evict -1 blocks"),
        (lambda t: t.insert(ids(1, 2, 3), ids(1, 2)), ValueError, "3 tokens need 3 blocks of 1, got 2"),
        (lambda t: t.node(99), CacheError, "node 99 is not in the tree"),
    ],
)
def test_misuse_of_a_tree(misuse: Callable[[RadixTree], object], error: type[Exception], fault: str) -> None:
    tree, slots = RadixTree(), Slots()
    tree.lock(put(tree, slots, [1, 2, 3]).node)
    put(tree, slots, [1, 2, 4])
    put(tree, slots, [9])
    before = tree_state(tree)
    with pytest.raises(error, match=fault):
        misuse(tree)
    assert tree_state(tree) == before
    check_tree(tree, 16)


def test_unlocking_below_zero_high_up_changes_nothing_below() -> None:
    tree, slots = RadixTree(), Slots()
    node = put(tree, slots, [1, 2, 3]).node
    tree.lock(node)
    upper = put(tree, slots, [1, 9]).node.parent
    assert upper is not None
    tree.unlock(upper)  # somebody else's lock
    before = tree_state(tree)
    with pytest.raises(ReleaseError, match=f"node {upper.id} is unlocked"):
        tree.unlock(node)
    assert tree_state(tree) == before


@pytest.mark.parametrize(
    "fault", ["locks", "order", "tokens", "counts", "root", "blocks", "namespace", "pinned"]
)
def test_the_check_notices(fault: str) -> None:
    cache = busy(RadixCache)
    assert isinstance(cache, RadixCache)
    tree = cache.tree
    node = max(tree.walk(), key=lambda n: len(n.tokens))
    if fault == "locks":
        node.locks += 1
    elif fault == "order":
        tree.roots[""].order.reverse()
        tree.roots[""].order.pop()
    elif fault == "tokens":
        node.data = node.data[:-4]
    elif fault == "counts":
        tree.total_tokens += 1
    elif fault == "root":
        tree.roots["empty"] = tree.root("empty")
    elif fault == "blocks":
        node.block_data = ids(7).tobytes()
    elif fault == "namespace":
        node.namespace = "other"
    else:
        node.pinned = True
    with pytest.raises(IntegrityError):
        cache.check_integrity()
