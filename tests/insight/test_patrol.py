"""The check of a live mirror: it finds what is wrong, in slices, and costs nothing where nothing changed."""

from __future__ import annotations

import pytest

from chatkv.insight import patrol
from chatkv.insight.patrol import Patrol
from tests.insight.streams import Stream


def grown(nodes: int = 6) -> Stream:
    stream = Stream(num_blocks=nodes)
    stream.open(1, prompt=2 * nodes)
    for node in range(1, nodes + 1):
        stream.allocate(1, node - 1)
        stream.write(1, 2)
        stream.store(node, node - 1, [node, node], [node - 1], request=1)
    stream.lock(nodes, 1)
    return stream


def round_of(watch: Patrol, stream: Stream) -> int:
    """Steps until nothing is left."""
    steps = 0
    while watch.step(stream.mirror):
        steps += 1
        assert steps < 100
    return steps


def test_a_small_tree_is_checked_at_once_and_not_again_until_it_changes() -> None:
    stream, watch = grown(), Patrol()
    assert not watch.ended
    assert round_of(watch, stream) == 1
    assert watch.ended
    assert not watch.step(stream.mirror)
    stream.write(1, 0)
    assert watch.step(stream.mirror)


@pytest.mark.parametrize("slice_size", [1_000, 2])
@pytest.mark.parametrize("fault", ["owner", "locks", "parent", "free", "row"])
def test_each_fault_is_found_and_gone_when_it_is(
    monkeypatch: pytest.MonkeyPatch, slice_size: int, fault: str
) -> None:
    monkeypatch.setattr(patrol, "SMALL", slice_size)
    stream, watch = grown(), Patrol()
    mirror = stream.mirror
    round_of(watch, stream)
    assert watch.problems == ()
    node = mirror.nodes[3]
    if fault == "owner":
        mirror._blocks.owner[2] = 5
    elif fault == "locks":
        node.locks = 7
    elif fault == "parent":
        node.parent = 1
    elif fault == "free":
        mirror._blocks.free += 1
    else:
        mirror.rows[1].blocks.append(mirror.rows[1].blocks[0])
    stream.write(1, 0)
    round_of(watch, stream)
    assert watch.problems
    if fault == "owner":
        mirror._blocks.owner[2] = 3
    elif fault == "locks":
        node.locks = 1
    elif fault == "parent":
        node.parent = 2
    elif fault == "free":
        mirror._blocks.free -= 1
    else:
        mirror.rows[1].blocks.pop()
    stream.write(1, 0)
    round_of(watch, stream)
    assert watch.problems == ()


def test_a_tree_that_changes_under_a_round_raises_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patrol, "SMALL", 2)
    stream, watch = Stream(num_blocks=12), Patrol()
    stream.open(1, prompt=8)
    for node in range(1, 7):
        stream.allocate(1, node - 1)
        stream.store(node, 0, [node, node], [node - 1])
    stream.close(1)
    assert watch.step(stream.mirror)
    stream.evict(1)
    stream.evict(5)
    round_of(watch, stream)
    assert watch.problems == ()
    assert watch.ended


def test_a_torn_tree_is_told_not_raised() -> None:
    stream = grown()
    nodes = stream.mirror.nodes
    nodes[6].children = [1]
    assert any("under two others" in problem or "itself" in problem for problem in stream.mirror.check())
    del nodes[2]
    assert any("which does not exist" in problem for problem in stream.mirror.check())
