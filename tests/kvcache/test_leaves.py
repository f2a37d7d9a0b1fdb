"""The queue of evictable leaves against sorting all of them, and its size."""

from __future__ import annotations

import random

import pytest

from chatkv.kvcache.eviction import STRATEGIES
from chatkv.kvcache.leaves import EvictableLeaves
from chatkv.kvcache.node import Node
from chatkv.kvcache.radix import RadixTree
from tests.kvcache.trees import Slots, gone, ids, node_of, put, snapshot


def leaf(id: int, now: int = 0) -> Node:
    return Node(id, None, b"", b"", now, "")


def drained(leaves: EvictableLeaves) -> list[int]:
    """The ids in the order of eviction."""
    out = []
    while (node := leaves.first()) is not None:
        out.append(node.id)
        leaves.discard(node)
    return out


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_first_is_the_smallest_whatever_happened(name: str, seed: int) -> None:
    rng = random.Random(seed)
    leaves = EvictableLeaves(STRATEGIES[name])
    nodes = [leaf(id, id) for id in range(12)]
    inside: set[int] = set()
    for now in range(100, 700):
        node = rng.choice(nodes)
        action = rng.random()
        if action < 0.2 and node.id not in inside:
            leaves.add(node)
            inside.add(node.id)
        elif action < 0.4:
            leaves.discard(node)
            inside.discard(node.id)
        elif action < 0.8:
            node.last = now
            node.hits += rng.randrange(2)
            node.priority = max(node.priority, rng.randrange(3))
            leaves.changed(node)
        else:
            node.pinned = not node.pinned
            leaves.changed(node)
        first = leaves.first() if rng.random() < 0.5 else None
        assert len(leaves) == len(inside)
        assert (node in leaves) == (node.id in inside)
        if first is not None:
            assert leaves.key(first) == min(leaves.key(nodes[id]) for id in inside)
    expected = sorted(inside, key=lambda id: leaves.key(nodes[id]))
    assert [leaves.key(nodes[id]) for id in drained(leaves)] == [leaves.key(nodes[id]) for id in expected]


def test_unpinned_while_locked_it_takes_its_place_again() -> None:
    leaves = EvictableLeaves(STRATEGIES["lru"])
    old, young = leaf(1, 1), leaf(2, 2)
    for node in (old, young):
        leaves.add(node)
    old.pinned = True
    leaves.changed(old)
    assert leaves.first() is young
    leaves.discard(old)  # locked
    old.pinned = False
    leaves.changed(old)
    leaves.add(old)  # unlocked
    assert drained(leaves) == [1, 2]


@pytest.mark.parametrize("name", STRATEGIES)
def test_pinned_leaves_are_last(name: str) -> None:
    leaves = EvictableLeaves(STRATEGIES[name])
    nodes = [leaf(id, id) for id in range(6)]
    for node in nodes:
        leaves.add(node)
    for id in (0, 2, 5):
        nodes[id].pinned = True
        leaves.changed(nodes[id])
    order = drained(leaves)
    assert set(order[:3]) == {1, 3, 4}
    assert set(order[3:]) == {0, 2, 5}


def test_mru_takes_what_was_used_last_again_and_again() -> None:
    tree, slots = RadixTree(eviction="mru"), Slots()
    for x in range(1, 6):
        put(tree, slots, [x, x])
    for x in (2, 4, 2, 1, 4, 3, 4):
        tree.match(ids(x, x))
    out = []
    for _ in range(5):
        before = snapshot(tree)
        tree.evict(1)
        out += [tokens[0] for tokens in gone(tree, before)]
    assert out == [4, 3, 1, 2, 5]


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_queue_stays_small(name: str) -> None:
    leaves = EvictableLeaves(STRATEGIES[name])
    nodes = [leaf(id, id) for id in range(50)]
    for now in range(20_000):
        node = nodes[now % 50]
        node.last = now
        leaves.changed(node)
        if now % 3 == 0:
            leaves.discard(node)
        else:
            leaves.add(node)
        if now % 7 == 0:
            node.pinned = not node.pinned
            leaves.changed(node)
    assert len(leaves._heap) <= 4 * 50 + 65
    assert len(drained(leaves)) > 20


def test_uses_leave_nothing_behind() -> None:
    leaves = EvictableLeaves(STRATEGIES["lru"])
    nodes = [leaf(id, id) for id in range(8)]
    for node in nodes:
        leaves.add(node)
    size = len(leaves._heap)
    for now in range(100, 1100):
        nodes[now % 8].last = now
        leaves.changed(nodes[now % 8])
    assert len(leaves._heap) == size
    assert drained(leaves) == [(1092 + i) % 8 for i in range(8)]


def test_evicting_from_many_leaves_looks_at_few(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    key = EvictableLeaves.key

    def counted(self: EvictableLeaves, node: Node) -> tuple[int, ...]:
        nonlocal looked
        looked += 1
        return key(self, node)

    costs = []
    for width in (100, 3000):
        tree, slots = RadixTree(), Slots()
        for x in range(width):
            put(tree, slots, [x])
        for x in reversed(range(width)):  # nor does the first eviction pay for earlier uses
            tree.match(ids(x))
        with monkeypatch.context() as patch:
            patch.setattr(EvictableLeaves, "key", counted)
            looked = 0
            tree.evict(50)
            costs.append(looked)
    assert costs[0] == costs[1] <= 2 * 50


def test_block_grain_takes_no_more_than_asked_and_from_the_end() -> None:
    tree, slots = RadixTree(2, grain="block"), Slots()
    put(tree, slots, [1, 1, 2, 2, 3, 3, 4, 4])
    evicted = tree.evict(1)
    assert (evicted.blocks.tolist(), evicted.tokens) == ([3], 2)
    evicted = tree.evict(2)
    assert (evicted.blocks.tolist(), evicted.tokens) == ([1, 2], 4)
    assert node_of(tree, [1, 1]).blocks.tolist() == [0]
    assert (tree.total_tokens, tree.evictable) == (2, 1)
