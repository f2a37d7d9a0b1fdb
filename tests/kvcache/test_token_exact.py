"""Reuse to the token at any block size: partly filled blocks are kept as leaves and copied from."""

from __future__ import annotations

import pytest

from chatkv.kvcache.cache import Copy
from chatkv.kvcache.events import BlocksFreed, NodeEvicted, NodeExtended, NodeStored, RowRepointed
from chatkv.kvcache.radix import RadixTree
from tests.kvcache.lives import Watched
from tests.kvcache.trees import Slots, ids, node_of, put

A = list(range(100, 140))
B = list(range(200, 240))


def life_of(num_blocks: int = 40, block_size: int = 4, eviction: str = "lru") -> Watched:
    return Watched(num_blocks, block_size, strict=False, eviction=eviction)


def test_a_tail_is_kept_and_copied() -> None:
    life = life_of()
    life.whole(1, A[:10])
    assert life.nodes == [(A[:8], 0), (A[8:10], 0)]
    (tail,) = node_of(life.cache.tree, A[8:10]).blocks.tolist()
    opened = life.open(2, A[:15])
    (target,) = life.cache.row(2).blocks.array.tolist()[2:]
    assert opened == (10, 2, (Copy(tail, target, 2),))
    assert len(life.cache.row(2).tokens) == 10
    life.compute(2, A[10:15])
    assert life.cache.row(2).blocks.array.tolist()[2] == target


@pytest.mark.parametrize("block_size", [2, 3, 4, 16])
@pytest.mark.parametrize("n", range(1, 12))
def test_every_written_token_is_found_again(block_size: int, n: int) -> None:
    life = life_of(block_size=block_size)
    life.whole(1, A[:n], B[:5])
    assert life.whole(2, [*A[:n], *B[:5], 1]) == n + 5
    assert life.whole(3, [*A[:n], *B[:2], 1]) == n + 2
    assert life.whole(4, A[:n]) == n - 1  # the last token is always computed


def test_a_match_inside_a_full_block_copies_its_first_slots() -> None:
    life = life_of()
    life.whole(1, A[:12])
    assert life.whole(2, [*A[:6], 1, 2, 3]) == 6
    assert life.nodes == [([3], 0), (A[:4], 0), ([*A[4:6], 1, 2], 0), (A[4:12], 0)]


def test_a_fuller_block_supersedes_the_tail() -> None:
    life = life_of()
    life.whole(1, A[:10])
    life.whole(2, A[:11])
    assert life.nodes == [(A[:8], 0), (A[8:11], 0)]
    life.whole(3, A[:13])
    assert life.nodes == [(A[:8], 0), (A[8:12], 0), (A[12:13], 0)]
    gone = [event for event in life.of(NodeEvicted) if isinstance(event, NodeEvicted)]
    assert [(event.tokens, event.reason) for event in gone] == [(2, "superseded"), (3, "superseded")]
    assert life.counts == (36, 4, 0)


def test_a_tail_that_is_there_already_is_not_kept_twice() -> None:
    life = life_of()
    life.whole(1, A[:11])
    before = life.counts
    for request, n in ((2, 10), (3, 11), (4, 9)):
        life.whole(request, A[:n])
        assert life.counts == before
    assert life.nodes == [(A[:8], 0), (A[8:11], 0)]


def test_prompt_and_answer_are_nodes_of_their_own() -> None:
    life = life_of()
    life.whole(1, A[:8], B[:9])
    assert life.nodes == sorted([(A[:8], 0), (B[:8], 0), (B[8:9], 0)])


@pytest.mark.parametrize("strict", [False, True])
def test_the_block_that_prompt_and_answer_share_begins_the_answer(strict: bool) -> None:
    life = Watched(40, 4, strict=strict)
    life.open(1, A[:10])
    life.compute(1, A[:10])
    for token in B[:8]:
        life.compute(1, [token])
    assert life.nodes == [(A[:8], 1), ([*A[8:10], *B[:6]], 1)]


def test_a_leaf_grows_in_place() -> None:
    life = life_of()
    life.open(1, A[:17])
    for at in range(0, 16, 4):
        life.compute(1, A[at : at + 4])
    (node,) = life.cache.tree.walk()
    assert (len(node.tokens), node.locks) == (16, 1)
    assert (len(life.of(NodeStored)), len(life.of(NodeExtended))) == (1, 3)


def test_a_leaf_that_another_request_holds_does_not_grow() -> None:
    life = life_of()
    life.open(1, A[:17])
    life.compute(1, A[:8])
    life.open(2, A[:9])  # holds the same node
    life.compute(1, A[8:16])
    assert life.nodes == [(A[:8], 2), (A[8:16], 1)]
    assert life.cache.row(2).published == 2  # and is not led to think that it covers more


def test_two_at_once_share_in_the_end() -> None:
    life = life_of()
    for request in (1, 2):
        assert life.open(request, A[:10]).cached == 0
    life.compute(1, A[:10])
    life.compute(2, A[:10])
    (repointed,) = life.of(RowRepointed)
    assert isinstance(repointed, RowRepointed)
    (freed,) = [event for event in life.of(BlocksFreed) if isinstance(event, BlocksFreed)]
    assert (repointed.request, freed.request, freed.reason) == (2, 2, "duplicate")
    assert freed.blocks.tolist() == repointed.old.tolist()
    assert freed.seq == repointed.seq + 1
    first, second = (life.cache.row(request).blocks.array.tolist() for request in (1, 2))
    assert first[:2] == second[:2] == repointed.new.tolist()
    assert first[2] != second[2]
    assert life.counts == (36, 0, 4)
    assert life.nodes == [(A[:8], 2)]
    for request in (1, 2):
        life.close(request)
    assert life.nodes == [(A[:8], 0), (A[8:10], 0)]
    assert life.counts == (37, 3, 0)


def test_two_at_once_that_part_inside_a_block() -> None:
    life = life_of()
    for request, tokens in ((1, A[:8]), (2, [*A[:5], 1, 2, 3])):
        life.open(request, tokens)
    life.compute(1, A[:8])
    life.compute(2, [*A[:5], 1, 2, 3])
    assert life.nodes == sorted([(A[:4], 2), (A[4:8], 1), ([A[4], 1, 2, 3], 1)])
    assert life.counts == (37, 0, 3)


def test_the_source_is_never_evicted_for_its_own_copy() -> None:
    life = life_of(num_blocks=2)
    life.whole(1, A[:6])
    assert life.counts == (0, 2, 0)
    opened = life.open(2, A[:7])  # fits, but only by evicting the tail that it would copy
    assert opened == (4, 0, ())
    assert life.nodes == [(A[:4], 1), (A[4:6], 0)]
    life.compute(2, A[4:7])
    assert life.nodes == [(A[:4], 1)]
    life.close(2)
    assert life.nodes == [(A[:4], 0), (A[4:7], 0)]


def test_room_for_a_copy_comes_from_elsewhere() -> None:
    life = life_of(num_blocks=3)
    life.whole(1, A[:6])
    life.whole(2, B[:4])
    life.cache.tree.match(ids(*B[:4]))  # now the tail would be the first to go
    opened = life.open(3, A[:7])
    assert opened.copied == 2
    assert life.nodes == [(A[:4], 1), (A[4:6], 0)]
    (copy,) = opened.copies
    assert copy.source != copy.target


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("eviction", ["lru", "mru", "lfu"])
def test_peek_changes_nothing(strict: bool, eviction: str) -> None:
    life = Watched(40, 4, strict=strict, eviction=eviction)
    life.whole(1, A[:10])
    life.whole(2, B[:10])
    records = len(life.events)
    looks = [(n.id, n.last, n.hits, len(n.tokens)) for n in life.cache.tree.walk()]
    for prompt in (A[:10], A[:7], A[:30], B[:3], [1], []):
        life.cache.peek(prompt)
        life.cache.peek(prompt, "elsewhere")
    assert len(life.events) == records
    assert [(n.id, n.last, n.hits, len(n.tokens)) for n in life.cache.tree.walk()] == looks
    first = life.cache.tree.leaves.first()
    assert first is not None
    assert (first.tokens[0] >= 200) == (eviction == "mru")


def test_peek_tells_what_open_will_find() -> None:
    life = life_of()
    life.whole(1, A[:10])
    for request, prompt in enumerate((A[:3], A[:10], A[:30], [*A[:9], 1, 2], B), start=2):
        expected = life.cache.peek(prompt)
        assert life.whole(request, prompt) == expected


def test_an_open_that_does_not_fit_changes_nothing() -> None:
    life = life_of(num_blocks=5)
    life.whole(1, A[:10])  # 3 blocks idle, 2 free
    life.open(2, B[:8])
    life.compute(2, B[:8])
    records, nodes, counts = len(life.events), life.nodes, life.counts
    assert counts == (0, 3, 2)
    assert life.cache.open(3, [*A[:8], *B[:5]]) is None  # would lock 2 of the 3, and needs 2
    assert life.cache.open(3, A[:12], headroom=1) is None
    assert (len(life.events), life.nodes, life.counts) == (records, nodes, counts)
    assert life.cache.open(3, A[:12]) is not None


def test_a_preempted_row_leaves_no_tail() -> None:
    life = life_of()
    life.open(1, A[:10])
    life.compute(1, A[:10])
    life.close(1, "preempted")
    assert life.nodes == [(A[:8], 0)]


def test_a_tail_that_is_locked_is_not_superseded() -> None:
    tree, slots = RadixTree(4, strict=False), Slots()
    upper = put(tree, slots, A[:4]).node
    tail = tree.store_tail(upper, ids(*A[4:6]), 90).node
    tree.lock(tail)
    assert len(tree.store(upper, ids(*A[4:8]), ids(91)).dropped) == 0
    assert sorted(node.tokens.tolist() for node in tree.walk()) == [A[:4], A[4:6], A[4:8]]
    tree.unlock(tail)
    assert sorted(tree.evict(3).blocks.tolist()) == [0, 90, 91]
    assert tree.total_tokens == 0
