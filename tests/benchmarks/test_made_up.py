"""A made-up cache tells what a real one would: the mirror takes all of it, and every invariant holds."""

from __future__ import annotations

import pytest

from benchmarks.screen.made_up import BLOCK, MadeUpCache
from chatkv.insight.mirror import Mirror


@pytest.mark.parametrize("nodes", [1, 50, 700])
def test_its_tree_has_so_many_nodes(nodes: int) -> None:
    cache, mirror = MadeUpCache(nodes), Mirror()
    mirror.apply_all(cache.take())
    assert len(mirror.nodes) - 1 == nodes
    assert mirror.faults == []
    assert mirror.check() == []
    assert cache.take() == ()


def test_answers_grow_block_by_block_and_end() -> None:
    cache, mirror = MadeUpCache(100), Mirror()
    growing = [cache.open(f"s{n}", prompt) for n, prompt in enumerate((100, 96, 16, 17))]
    for step in range(3 * BLOCK):
        assert len(cache.step(growing)) == len(growing)
        mirror.apply_all(cache.take())
        assert mirror.faults == []
        assert [row.written for row in mirror.rows.values()] == [one.prompt + step + 1 for one in growing]
        assert mirror.check() == []
    assert [mirror.requests[one.id].output_tokens for one in growing] == [3 * BLOCK] * 4
    assert len(mirror.nodes[growing[1].node].tokens) > 96
    for one in growing:
        cache.close(one)
    mirror.apply_all(cache.take())
    assert mirror.faults == []
    assert mirror.check() == []
    assert mirror.rows == {}
    assert mirror.protected == 0
