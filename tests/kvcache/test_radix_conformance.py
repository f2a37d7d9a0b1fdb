"""The R cases: what a radix tree of prefixes must get right, with its numbers (strict mode)."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest

from chatkv.kvcache import wire
from chatkv.kvcache.block_hash import block_hash
from chatkv.kvcache.check import check_tree
from chatkv.kvcache.errors import IntegrityError
from chatkv.kvcache.events import CacheCleared, Event, EventLog, NodeSplit
from chatkv.kvcache.eviction import STRATEGIES, strategy
from chatkv.kvcache.leaves import EvictableLeaves
from chatkv.kvcache.node import Node
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.radix import RadixTree
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.kvcache.wire import AllBlocksCleared, BlockRemoved, BlockStored, WireEncoder
from tests.kvcache.trees import Slots, gone, ids, node_of, put, shape, snapshot


@pytest.fixture
def slots() -> Slots:
    return Slots()


def r1_tree(slots: Slots) -> tuple[RadixTree, list[int]]:
    tree = RadixTree()
    sequences = ([1, 2, 3], [1, 2, 3], [1, 2, 4, 5], [1, 2, 4, 5, 6, 7], [8, 9, 10, 11, 12])
    return tree, [put(tree, slots, sequence).present for sequence in sequences]


def test_r1_insert_reports_what_was_there(slots: Slots) -> None:
    tree, present = r1_tree(slots)
    assert present == [0, 3, 2, 4, 0]
    assert tree.total_tokens == 12
    assert shape(tree) == {(1, 2): {(3,): {}, (4, 5): {(6, 7): {}}}, (8, 9, 10, 11, 12): {}}


def test_r2_match_never_changes_the_total(slots: Slots) -> None:
    tree, _ = r1_tree(slots)
    assert tree.match(ids(1, 2, 3, 13, 14)).tokens == 3
    assert tree.match(ids(8, 9, 99)).tokens == 2
    assert tree.total_tokens == 12


def test_r3_empty_key(slots: Slots) -> None:
    tree = RadixTree()
    match = tree.match(ids())
    assert (match.tokens, match.blocks.tolist(), match.node.parent) == (0, [], None)
    assert put(tree, slots, []).present == 0
    assert list(tree.walk()) == []
    assert tree.roots == {}


@pytest.mark.parametrize("page", [1, 2])
def test_r4_a_split_keeps_the_order_of_slots(page: int) -> None:
    tree = RadixTree(page)
    tree.insert(ids(1, 2, 3, 4, 5, 6, 7, 8), ids(*range(10, 81, 10))[: 8 // page])
    tree.insert(ids(1, 2, 9, 10), ids(100, 110, 120, 130)[: 4 // page])
    own = [10, 20, 30, 40, 50, 60, 70, 80][: 8 // page]
    assert tree.total_tokens == 10
    assert tree.match(ids(1, 2, 3, 4, 999, 1000)).blocks.tolist() == own[: 4 // page]
    assert tree.total_tokens == 10
    assert tree.match(ids(1, 2, 3, 4, 5, 6, 7, 8)).blocks.tolist() == own
    assert tree.match(ids(1, 2, 3, 4, 5, 6, 777)).tokens == 6
    second = tree.match(ids(1, 2, 9, 10)).blocks.tolist()
    assert second == ([10, 20, 120, 130] if page == 1 else [10, 110])


def test_r5_a_match_inside_a_node_splits_it_once(slots: Slots) -> None:
    splits: list[Event] = []
    tree = RadixTree(
        log=EventLog(lambda event: splits.append(event) if isinstance(event, NodeSplit) else None)
    )
    put(tree, slots, [1, 2, 3])
    for _ in range(2):
        assert tree.match(ids(1, 2, 3)[:2]).tokens == 2
    assert shape(tree) == {(1, 2): {(3,): {}}}
    assert len(splits) == 1


def test_r6_page_two_children_may_share_a_first_token(slots: Slots) -> None:
    tree = RadixTree(2)
    put(tree, slots, [1, 2, 3, 4, 5])
    assert tree.total_tokens == 4
    assert tree.match(ids(1, 2, 3, 4, 5)).tokens == 4
    assert tree.match(ids(1, 2, 3, 9)).tokens == 2
    assert tree.match(ids(1)).tokens == 0
    assert put(tree, slots, [1, 2, 3, 9]).present == 2
    assert shape(tree) == {(1, 2): {(3, 4): {}, (3, 9): {}}}


def test_r7_six_tokens_in_pages_of_four(slots: Slots) -> None:
    tree = RadixTree(4)
    put(tree, slots, [1, 2, 3, 4, 5, 6])
    assert tree.match(ids(1, 2, 3, 4, 5, 6)).tokens == 4
    assert tree.evictable == 1  # blocks: 4 tokens


@pytest.mark.parametrize("page", [1, 2, 3, 4, 7, 16])
def test_r7_a_match_is_whole_pages(page: int, slots: Slots) -> None:
    tree = RadixTree(page)
    for n in range(40):
        tokens = [1000 * (n + 1) + i for i in range(n)]
        put(tree, slots, tokens)
        assert tree.match(ids(*tokens)).tokens == n // page * page


def test_r8_namespaces_share_nothing(slots: Slots) -> None:
    tree = RadixTree()
    spaces = ["a", "b", "", "salt s"]  # "" is the namespace of those that name none
    assert [put(tree, slots, [1, 2, 3], space).present for space in spaces] == [0, 0, 0, 0]
    assert tree.total_tokens == 12
    assert tree.match(ids(1, 2, 3), "unknown").tokens == 0
    assert set(tree.roots) == set(spaces)
    blocks = [tree.match(ids(1, 2, 3), space).blocks.tolist() for space in spaces]
    assert blocks == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert len({block_hash(None, ids(1, 2, 3), space) for space in spaces}) == 4


def test_r9_lock_covers_the_path_and_evict_takes_whole_nodes(slots: Slots) -> None:
    tree = RadixTree()
    put(tree, slots, [1, 2, 3, 4])
    put(tree, slots, [1, 2, 5, 6])
    node = tree.match(ids(1, 2, 3, 4)).node
    assert tree.lock(node) == 4
    assert (tree.evictable, tree.protected) == (2, 4)
    assert node.parent is not None
    assert (node.locks, node.parent.locks) == (1, 1)
    before = snapshot(tree)
    assert tree.evict(100).tokens == 2
    assert gone(tree, before) == [[5, 6]]
    assert tree.total_tokens == 4
    assert tree.unlock(node) == 4
    before = snapshot(tree)
    assert tree.evict(1).tokens == 2
    assert gone(tree, before) == [[3, 4]]
    assert tree.evictable == 2
    assert tree.evict(100).tokens == 2
    assert shape(tree) == {}


def test_r10_a_handle_outlives_a_split(slots: Slots) -> None:
    tree = RadixTree()
    handle = put(tree, slots, [1, 2, 3, 4]).node
    tree.lock(handle)
    put(tree, slots, [1, 2, 9])
    assert [node_of(tree, t).locks for t in ([1, 2], [3, 4], [9])] == [1, 1, 0]
    assert (tree.evictable, tree.protected) == (1, 4)
    tree.unlock(handle)
    assert [node.locks for node in tree.walk()] == [0, 0, 0]
    assert (tree.evictable, tree.protected) == (5, 0)


def test_r11_a_parent_joins_when_its_last_child_goes(slots: Slots) -> None:
    tree = RadixTree()
    put(tree, slots, [1, 2, 3, 4])
    put(tree, slots, [1, 2, 5])
    assert shape(tree) == {(1, 2): {(3, 4): {}, (5,): {}}}
    evicted = tree.evict(4)
    assert evicted.tokens == 5
    assert sorted(evicted.blocks.tolist()) == [0, 1, 2, 3, 6]
    assert shape(tree) == {}
    assert (tree.total_tokens, tree.evictable) == (0, 0)


def test_r12_the_root_is_never_evicted(slots: Slots) -> None:
    tree = RadixTree()
    assert tree.root().locks == 1
    assert tree.evict(100).tokens == 0
    put(tree, slots, [1, 2])
    assert tree.evict(0).tokens == 0
    assert tree.total_tokens == 2
    assert tree.evict(100).tokens == 2
    assert tree.root().locks == 1


def test_r13_lru(slots: Slots) -> None:
    tree = RadixTree()
    for sequence in ([1, 2], [3, 4, 5], [6]):
        put(tree, slots, sequence)
    tree.match(ids(1, 2))
    before = snapshot(tree)
    assert tree.evict(1).tokens == 3
    assert gone(tree, before) == [[3, 4, 5]]


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("lru", [3, 1, 2]),
        ("lfu", [3, 2, 1]),
        ("fifo", [1, 2, 3]),
        ("mru", [2, 1, 3]),
        ("filo", [3, 2, 1]),
        ("slru", [3, 2, 1]),
        ("priority", [3, 1, 2]),
    ],
)
def test_r15_policies(name: str, order: list[int], slots: Slots) -> None:
    tree = RadixTree(eviction=name)
    for x in (1, 2, 3, 1, 1):
        put(tree, slots, [x, x], priority=5 if x == 2 else 0)
    tree.match(ids(2, 2))
    assert [node_of(tree, [x, x]).hits for x in (1, 2, 3)] == [2, 0, 0]  # a match alone is no hit
    out = []
    for _ in range(3):
        before = snapshot(tree)
        tree.evict(1)
        out += [tokens[0] for tokens in gone(tree, before)]
    assert out == order


class Looks(NamedTuple):
    hits: int
    last: int
    created: int = 0
    priority: int = 0


def test_r16_slru_key() -> None:
    nodes = [Looks(5, 1), Looks(0, 10), Looks(0, 2), Looks(3, 8)]
    assert sorted(nodes, key=strategy("slru").key) == [nodes[2], nodes[1], nodes[0], nodes[3]]


@pytest.mark.parametrize("name", ["lfu", "priority"])
def test_r16_ties_go_to_the_older_access(name: str) -> None:
    nodes = [Looks(4, 9, priority=4), Looks(4, 3, priority=4), Looks(1, 20, priority=1)]
    assert sorted(nodes, key=strategy(name).key) == [nodes[2], nodes[1], nodes[0]]


def test_r16_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(ValueError, match="'lruu'.*" + ", ".join(STRATEGIES)):
        strategy("lruu")


def test_r18_priority_is_the_largest_on_the_path(slots: Slots) -> None:
    tree = RadixTree()
    put(tree, slots, [1, 2, 3])
    put(tree, slots, [1, 2, 9], priority=7)
    assert [node_of(tree, t).priority for t in ([1, 2], [3], [9])] == [7, 0, 7]


def test_r18_a_split_inherits_priority_and_hits(slots: Slots) -> None:
    tree = RadixTree()
    for _ in range(3):
        put(tree, slots, [1, 2, 3, 4], priority=3)
    tree.match(ids(1, 2))
    assert [(n.priority, n.hits) for n in (node_of(tree, [1, 2]), node_of(tree, [3, 4]))] == [(3, 2), (3, 2)]


def test_r19_without_a_cache_nothing_is_kept() -> None:
    cache = NoneCache(8, 1)
    for request in range(2):
        opened = cache.open(request, [1, 2, 3])
        assert opened is not None
        assert opened.cached == 0
        assert cache.grow(request, 3)
        cache.commit(request, [1, 2, 3])
        assert (cache.evictable, cache.protected) == (0, 3)
        cache.close(request, "finished")
        assert (cache.free, cache.peek([1, 2, 3, 4])) == (8, 0)
        cache.check_integrity()


def test_r20_clear_leaves_nothing_and_says_so_once() -> None:
    events: list[Event] = []
    cache = RadixCache(16, 1, strict=True, log=EventLog(events.append))
    encoder = WireEncoder(1)
    cache.open(1, [1, 2, 3])
    cache.grow(1, 3)
    cache.commit(1, [1, 2, 3])
    assert not cache.clear()  # refused: a request is open
    assert cache.tree.total_tokens == 3
    cache.close(1, "finished")
    assert cache.evictable == 3
    assert cache.clear()
    assert (cache.tree.total_tokens, cache.evictable, cache.protected, cache.free) == (0, 0, 0, 16)
    cache.check_integrity()
    assert sum(isinstance(event, CacheCleared) for event in events) == 1
    for event in events:
        encoder.feed(event)
    assert [e for e in encoder.take() if not isinstance(e, BlockStored)] == [AllBlocksCleared()]


def test_r21_hashes_are_chained(monkeypatch: pytest.MonkeyPatch, slots: Slots) -> None:
    computed = []

    def counted(*args: object) -> bytes:
        computed.append(args)
        return block_hash(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(wire, "block_hash", counted)
    encoder = WireEncoder(4)
    tree = RadixTree(4, log=EventLog(encoder.feed))
    node = put(tree, slots, [1, 2, 3, 4, 1, 2, 3, 4]).node
    first, second = encoder.hashes(node.id)
    assert first == block_hash(None, ids(1, 2, 3, 4))
    assert second == block_hash(first, ids(1, 2, 3, 4)) != first
    assert len(computed) == 2
    upper = tree.match(ids(1, 2, 3, 4)).node
    assert (encoder.hashes(upper.id), encoder.hashes(node.id)) == ((first,), (second,))
    assert len(computed) == 2  # a split never computes one again


def test_r22_events_of_the_wire(slots: Slots) -> None:
    encoder = WireEncoder(4)
    tree = RadixTree(4, log=EventLog(encoder.feed))
    put(tree, slots, [1, 2, 3, 4, 9, 9, 9, 9, 5])
    one = block_hash(None, ids(1, 2, 3, 4))
    two = block_hash(one, ids(9, 9, 9, 9))
    assert encoder.take() == [BlockStored((one, two), None, (1, 2, 3, 4, 9, 9, 9, 9), 4, "")]
    put(tree, slots, [1, 2, 3, 4, 5, 6, 7, 8])
    three = block_hash(one, ids(5, 6, 7, 8))
    assert encoder.take() == [BlockStored((three,), one, (5, 6, 7, 8), 4, "")]
    tree.evict(100)
    (removed,) = encoder.take()
    assert isinstance(removed, BlockRemoved)
    assert sorted(removed.block_hashes) == sorted((one, two, three))
    assert removed.block_hashes[-1] == one  # never before those that hang on it
    assert encoder.take() == []


def test_r23_namespaces_never_share_hashes(slots: Slots) -> None:
    encoder = WireEncoder(4)
    tree = RadixTree(4, log=EventLog(encoder.feed))
    for space in ("salt a", "salt b", ""):
        put(tree, slots, [1, 2, 3, 4, 5, 6, 7, 8], space)
    stored = [event for event in encoder.take() if isinstance(event, BlockStored)]
    assert [event.namespace for event in stored] == ["salt a", "salt b", ""]
    assert len({digest for event in stored for digest in event.block_hashes}) == 6


@pytest.mark.parametrize("page", [1, 4])
@pytest.mark.parametrize("grain", ["node", "block"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_r26_fuzz(name: str, grain: str, page: int) -> None:
    rng = random.Random(f"{name} {grain} {page}")
    size = 64
    tree = RadixTree(page, eviction=name, grain=grain)
    free = list(range(size))
    locked: list[Node] = []
    sequences: list[list[int]] = [[]]
    for _ in range(150):
        base = rng.choice(sequences)
        tokens = base[: rng.randrange(len(base) + 1)] + [rng.randrange(3) for _ in range(rng.randrange(12))]
        space = rng.choice(["", "", "x"])
        action = rng.random()
        if action < 0.45:
            need = len(tokens) // page
            if need > len(free):
                free += tree.evict(need - len(free)).blocks.tolist()
            if need <= len(free):
                blocks, free = free[:need], free[need:]
                present = tree.insert(ids(*tokens), ids(*blocks), space, rng.randrange(3)).present
                free += blocks[: present // page]
                sequences.append(tokens)
        elif action < 0.6:
            tree.match(ids(*tokens), space)
        elif action < 0.75:
            locked.append(tree.match(ids(*tokens), space).node)
            tree.lock(locked[-1])
        elif action < 0.9 and locked:
            tree.unlock(locked.pop(rng.randrange(len(locked))))
        else:
            free += tree.evict(rng.randrange(6)).blocks.tolist()
        held = check_tree(tree, size)
        owned = [*free, *np.flatnonzero(held).tolist()]
        assert sorted(owned) == list(range(size))  # each slot exactly once
        assert len(free) + tree.evictable + tree.protected == size
        for node in tree.walk():
            assert len(node.tokens) > 0
            assert len(node.tokens) == page * len(node.blocks)
            assert node.parent is not None
            assert node.parent.children[node.tokens[:page].tobytes()] is node
            assert node.parent.parent is None or node.parent.locks >= node.locks
        idle = {n.id for n in tree.walk() if not n.children and n.locks == 0}
        assert tree.leaves.ids() == idle
    for node in locked:
        tree.unlock(node)
    assert tree.protected == 0
    free += tree.evict(size).blocks.tolist()
    assert sorted(free) == list(range(size))


def test_r26_the_check_notices(slots: Slots) -> None:
    tree = RadixTree()
    put(tree, slots, [1, 2, 3])
    tree.leaves = EvictableLeaves(tree.strategy)
    with pytest.raises(IntegrityError, match="evictable leaves differ"):
        check_tree(tree, 16)
