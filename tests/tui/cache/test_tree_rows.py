"""Rows kept up step by step are the rows of the tree."""

from __future__ import annotations

import random

import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import ROOT, CacheCleared, EventLog, NodeSplit
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.tui.cache.tree.rows import TreeRows
from chatkv.tui.cache.tree.shape import Folds, ghost_key, ghost_of, node_of
from tests.tui.cache.stories import figure, wide


def rows_of(mirror: Mirror) -> TreeRows:
    """As they came."""

    def order(key: int) -> tuple[int, ...]:
        if key >= 0:
            return mirror.nodes[key].created_seq, key
        return mirror.ghosts[ghost_of(key)].created_seq, node_of(key), key

    return TreeRows(mirror, order, Folds())


def follow(rows: TreeRows, mirror: Mirror) -> None:
    rows.follow(mirror.take_changed(), mirror.take_departed())


def check(rows: TreeRows, mirror: Mirror) -> None:
    """Every node and ghost once, under its parent; rows, indexes and sizes agree."""
    drawn = list(rows.rows(0, 10**6))
    keys = [row.key for row in drawn]
    assert len(keys) == len(rows) == len(set(keys))
    assert [rows.index(key) for key in keys] == list(range(len(keys)))
    assert [rows.key_at(at) for at in range(len(keys))] == keys
    everything = set(mirror.nodes) | {ghost_key(ghost) for ghost in mirror.ghosts}
    assert set(keys) <= everything
    assert set(keys) == everything or any(row.hidden for row in drawn)
    for key in everything - {ROOT}:
        assert key in rows
        if key > 0:
            assert rows.parent(key) == mirror.nodes[key].parent


@pytest.mark.parametrize("grain", ["node", "block"])
def test_following_a_random_run_keeps_every_row_in_its_place(grain: str) -> None:
    rng = random.Random(7)
    mirror = Mirror()
    cache = RadixCache(40, 4, strict=False, grain=grain, log=EventLog(mirror.apply))
    rows = rows_of(mirror)
    prompts: list[list[int]] = [[1, 2, 3, 4, 5, 6, 7, 8]]
    ghosts = 0
    for request in range(1, 160):
        prompt = rng.choice(prompts)[: rng.randint(1, 40)] + [rng.randint(1, 4) for _ in range(9)]
        opened = cache.open(request, prompt, session=f"s{request % 3}", namespace=rng.choice(["", "salt"]))
        if opened is not None and cache.grow(request, len(prompt)):
            cache.commit(request, prompt[opened.cached :])
            prompts.append(prompt)
        if opened is not None:
            cache.close(request, "finished")
        if rng.random() < 0.7:
            follow(rows, mirror)
            check(rows, mirror)
            ghosts = max(ghosts, len(mirror.ghosts))
            chosen = rows.key_at(rng.randrange(len(rows)))
            if rng.random() < 0.3:
                rows.fold(chosen)
            else:
                rows.unfold(chosen)
            check(rows, mirror)
    assert ghosts, "the run was meant to evict"
    fresh = rows_of(mirror)
    check(fresh, mirror)
    for row in list(rows.rows(0, len(rows))):
        rows.unfold(row.key)
    while folded := [row.key for row in rows.rows(0, len(rows)) if row.hidden]:
        for key in folded:
            rows.unfold(key)
    assert {row.key for row in rows.rows(0, 10**6)} == {row.key for row in fresh.rows(0, 10**6)}


def test_a_split_takes_the_place_of_the_node_it_splits() -> None:
    story = wide(30)
    rows = rows_of(story.mirror)
    follow(rows, story.mirror)
    before = rows.index(11)
    story.store(1, 100, 0, "abcd")
    story.store(1, 101, 0, "zz")
    follow(rows, story.mirror)
    at = rows.index(100)
    story.log.emit(NodeSplit, node=100, upper=102, at=2)
    follow(rows, story.mirror)
    assert (rows.index(102), rows.index(100), rows.parent(100)) == (at, at + 1, 102)
    assert rows.index(11) == before
    check(rows, story.mirror)


def test_a_ghost_stays_where_its_node_was_and_below_an_evicted_parent() -> None:
    story = figure()
    rows = rows_of(story.mirror)
    guides = [(row.key, row.guide) for row in rows.rows(0, 10)]
    assert guides == [(0, ""), (1, "├─"), (ghost_key(2), "│ ├─"), (3, "│ ├─"), (5, "│ └─"), (4, "└─")]
    for node in (5, 3):
        story.evict(node)
    story.evict(1)
    follow(rows, story.mirror)
    assert [row.key for row in rows.rows(0, 10)] == [0, *map(ghost_key, (1, 2, 3, 5)), 4]
    check(rows, story.mirror)


def test_clearing_a_large_tree_leaves_the_root() -> None:
    story = wide(500)
    rows = rows_of(story.mirror)
    follow(rows, story.mirror)
    assert len(rows) == 501
    story.log.emit(CacheCleared)
    follow(rows, story.mirror)
    assert [row.key for row in rows.rows(0, 10)] == [ROOT]


def test_rows_outside_are_no_rows() -> None:
    rows = rows_of(Mirror())
    assert list(rows.rows(5, 9)) == []
    assert list(rows.rows(-1, 9)) == []
    with pytest.raises(IndexError):
        rows.key_at(1)


@pytest.mark.parametrize("ghost", [1, 7, -1, -7])
def test_a_ghosts_row_key_leads_back_to_it(ghost: int) -> None:
    assert ghost_key(ghost) < 0
    assert ghost_of(ghost_key(ghost)) == ghost
    assert node_of(ghost_key(ghost)) == abs(ghost)


def test_a_very_deep_row_keeps_its_guide_short() -> None:
    story = wide(1)
    parent = 1
    for node in range(2, 42):
        story.store(1, node, parent, "a")
        parent = node
    rows = rows_of(story.mirror)
    follow(rows, story.mirror)
    (last,) = rows.rows(41, 42)
    assert last.key == 41
    assert last.guide.startswith("41⋯ ")
    assert len(last.guide) < 32
