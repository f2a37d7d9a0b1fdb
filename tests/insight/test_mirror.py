from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from chatkv.insight.mirror import BlockState, Mark, Mirror
from chatkv.kvcache import events as kv
from tests.insight.streams import Stream


def counts(mirror: Mirror) -> tuple[int, int, int]:
    return mirror.free, mirror.evictable, mirror.protected


def test_one_request_from_free_blocks_to_an_idle_node(stream: Stream) -> None:
    mirror = stream.mirror
    stream.open(1)
    stream.allocate(1, 0, 1, 2)
    assert stream.glyphs() == "+++....."
    stream.write(1, 5)
    row = mirror.rows[1]
    assert [row.filled(i) for i in range(4)] == [2, 2, 1, 0]
    assert counts(mirror) == (5, 0, 3)
    stream.store(1, kv.ROOT, [1, 2, 3, 4], [0, 1], request=1)
    stream.lock(1, 1)
    stream.store(2, 1, [5], [2], request=1)
    assert counts(mirror) == (5, 1, 2)
    assert mirror.nodes[2].is_tail
    assert not mirror.nodes[1].is_tail
    stream.unlock(1, 1)
    stream.close(1)
    assert counts(mirror) == (5, 3, 0)
    assert mirror.path(2) == [1, 2]
    assert mirror.check() == []
    assert mirror.nodes[1].mark.glyph == "+", "the latest request's nodes stay new until the next one"
    stream.open(2)
    assert mirror.nodes[1].mark.glyph == "·"
    assert stream.glyphs() == "···....."


def test_reuse_marks_locks_and_hits(stream: Stream) -> None:
    mirror = stream.mirror
    stream.whole_request(1, 1, [1, 2, 3, 4], [0, 1])
    stream.open(2, session="b", prompt=7)
    stream.lock(1, 2)
    assert stream.glyphs() == "##......"
    stream.emit(kv.PrefixReused, request=2, path=(1,), blocks=[0, 1], tokens=4)
    assert stream.glyphs() == "==......"
    node, row = mirror.nodes[1], mirror.rows[2]
    assert (node.mark, node.hits, node.sessions, node.glyph) == (Mark.REUSED, 1, {"a", "b"}, "=")
    assert (row.reused_blocks, row.reused, row.written, row.blocks) == (2, 4, 4, [0, 1])
    assert mirror.requests[2].cached == 4
    stream.open(3)
    assert node.mark.glyph == "=", "request 2 is still open"
    stream.unlock(1, 2)
    stream.close(2)
    assert node.mark.glyph == "·", "request 2 is over and not the latest"


def test_a_node_made_by_an_open_request_and_reused_by_another_is_reused_then_new_again(
    stream: Stream,
) -> None:
    stream.open(1)
    stream.allocate(1, 0)
    stream.store(1, kv.ROOT, [1, 2], [0], request=1)
    stream.open(2)
    stream.emit(kv.PrefixReused, request=2, path=(1,), blocks=[0], tokens=2)
    node = stream.mirror.nodes[1]
    assert node.mark.glyph == "="
    stream.close(2)
    stream.open(3)
    assert node.mark.glyph == "+"
    stream.close(1)
    assert node.mark.glyph == "·"


def test_what_a_resumed_request_finds_of_its_own_is_new(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2], [0])
    stream.open(1, resumed=True)
    stream.emit(kv.PrefixReused, request=1, path=(1,), blocks=[0], tokens=2)
    assert stream.mirror.nodes[1].mark.glyph == "+"
    assert stream.mirror.requests[1].cached == 0


def test_split_keeps_marks_locks_hits_sessions_and_place(stream: Stream) -> None:
    mirror = stream.mirror
    stream.whole_request(1, 1, [9, 9], [5])
    stream.whole_request(2, 2, [1, 2, 3, 4, 5, 6], [0, 1, 2])
    stream.whole_request(3, 3, [7, 7], [6])
    stream.open(4, session="b")
    stream.lock(2, 4)
    stream.emit(kv.PrefixReused, request=4, path=(2,), blocks=[0, 1, 2], tokens=6)
    stream.emit(kv.NodeSplit, node=2, upper=9, at=2)
    upper, lower = mirror.nodes[9], mirror.nodes[2]
    assert mirror.nodes[kv.ROOT].children == [1, 9, 3]
    assert (upper.children, lower.parent, upper.parent) == ([2], 9, kv.ROOT)
    assert (upper.tokens.tolist(), lower.tokens.tolist()) == ([1, 2], [3, 4, 5, 6])
    assert (upper.blocks.tolist(), lower.blocks.tolist()) == ([0], [1, 2])
    for node in (upper, lower):
        assert (node.locks, node.hits, node.mark, node.sessions) == (1, 1, Mark.REUSED, {"a", "b"})
        assert node.request == 2
    assert mirror.block_node(0) == 9
    assert mirror.block_requests(1) == [4]
    assert mirror.check() == []
    stream.unlock(2, 4)
    stream.close(4)
    stream.open(5)
    assert upper.mark.glyph == lower.mark.glyph == "·"


def test_evicted_blocks_and_ghosts_fade_after_two_more_requests(stream: Stream) -> None:
    mirror = stream.mirror
    stream.whole_request(1, 1, [1, 2, 3, 4], [0, 1])
    version = mirror.structure_version
    stream.evict(1)
    ghost = mirror.ghosts[1]
    assert stream.glyphs() == "xx......"
    assert mirror.structure_version > version
    assert (ghost.path, ghost.tokens.tolist(), ghost.reason, ghost.part) == (
        (1,),
        [1, 2, 3, 4],
        "room",
        False,
    )
    assert ghost.wall == 1000.0 + ghost.evicted_seq
    assert counts(mirror) == (8, 0, 0)
    assert (mirror.totals.evictions, mirror.totals.evicted_blocks) == (1, 2)
    stream.open(2)
    stream.allocate(2, 0)
    assert stream.glyphs() == "+x......"
    stream.emit(kv.BlocksFreed, request=2, blocks=[0], reason="aborted")
    assert stream.glyphs() == ".x......", "a block freed by a request was not evicted"
    stream.close(2, "aborted")
    assert 1 in mirror.ghosts
    stream.open(3)
    assert mirror.ghosts == {}
    assert stream.glyphs() == "........"


def test_a_superseded_tail_leaves_no_ghost(stream: Stream) -> None:
    stream.whole_request(1, 1, [1], [0])
    stream.evict(1, reason="superseded")
    assert stream.mirror.ghosts == {}
    assert stream.glyphs() == "........"
    assert (stream.mirror.totals.evictions, stream.mirror.totals.superseded) == (0, 1)


def test_only_the_newest_ghosts_are_kept() -> None:
    stream = Stream(num_blocks=100)
    stream.open(1)
    stream.allocate(1, *range(70))
    for node in range(1, 71):
        stream.store(node, kv.ROOT, [node, node], [node - 1], request=1)
    for node in range(1, 71):
        stream.evict(node)
    assert list(stream.mirror.ghosts) == list(range(7, 71))


def trim(stream: Stream, node: int, tokens: int, blocks: list[int]) -> None:
    stream.emit(
        kv.NodeTrimmed,
        node=node,
        tokens=tokens,
        blocks=blocks,
        reason="room",
        strategy="lru",
        rank=1,
        age=1,
        request=None,
    )


def test_trimming_block_by_block_makes_one_ghost_of_the_end(stream: Stream) -> None:
    mirror = stream.mirror
    stream.whole_request(1, 1, [1, 2, 3, 4, 5, 6], [0, 1, 2])
    trim(stream, 1, 2, [2])
    trim(stream, 1, 2, [1])
    assert mirror.nodes[1].tokens.tolist() == [1, 2]
    assert stream.glyphs() == "+xx....."
    (ghost,) = mirror.ghosts.values()
    assert (ghost.node, ghost.parent, ghost.part) == (1, 1, True)
    assert (ghost.tokens.tolist(), ghost.blocks.tolist()) == ([3, 4, 5, 6], [1, 2])
    assert mirror.check() == []


def test_repointing_then_freeing_duplicates(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2], [0])
    stream.open(2)
    stream.allocate(2, 3, 4)
    stream.write(2, 3)
    stream.lock(1, 2)
    stream.emit(kv.RowRepointed, request=2, logical=0, old=[3], new=[0])
    stream.emit(kv.BlocksFreed, request=2, blocks=[3], reason="duplicate")
    assert stream.mirror.rows[2].blocks == [0, 4]
    assert counts(stream.mirror) == (6, 0, 2)
    assert stream.mirror.check() == []


def test_a_copied_tail_is_reused_and_a_partly_copied_node_is_not() -> None:
    stream = Stream(block_size=4)
    stream.whole_request(1, 1, [1, 2, 3], [0])
    stream.whole_request(2, 2, [5, 6, 7], [1])
    stream.open(3)
    stream.allocate(3, 2)
    stream.emit(kv.SlotsCopied, request=3, node=1, source=0, target=2, tokens=3)
    row = stream.mirror.rows[3]
    assert (row.copied, row.written, stream.mirror.requests[3].copied) == (3, 3, 3)
    assert stream.mirror.nodes[1].mark.glyph == "="
    stream.open(4)
    stream.allocate(4, 3)
    stream.emit(kv.SlotsCopied, request=4, node=2, source=1, target=3, tokens=2)
    assert stream.mirror.nodes[2].mark.glyph == "·"


def test_extending_pinning_and_clearing(stream: Stream) -> None:
    mirror = stream.mirror
    stream.open(1)
    stream.allocate(1, 0, 1)
    stream.store(1, kv.ROOT, [1, 2], [0], request=1)
    stream.lock(1, 1)
    stream.emit(kv.NodeExtended, node=1, tokens=[3, 4], blocks=[1], request=1)
    stream.emit(kv.NodePinned, node=1, pinned=True)
    assert mirror.nodes[1].tokens.tolist() == [1, 2, 3, 4]
    assert mirror.nodes[1].pinned
    assert counts(mirror) == (6, 0, 2)
    stream.unlock(1, 1)
    stream.close(1)
    assert counts(mirror) == (6, 2, 0)
    stream.emit(kv.PathUsed, node=1, hit=True)
    assert (mirror.nodes[1].hits, mirror.nodes[1].last_seq) == (1, mirror.seq)
    stream.emit(kv.CacheCleared)
    assert list(mirror.nodes) == [kv.ROOT]
    assert counts(mirror) == (8, 0, 0)
    assert mirror.check() == []


def test_matching_changes_nothing_and_knows_namespaces_tails_and_strictness() -> None:
    for strict, expected in ((False, ([1, 2], 5)), (True, ([1], 4))):
        stream = Stream(strict=strict)
        stream.open(1)
        stream.allocate(1, 0, 1, 2)
        stream.store(1, kv.ROOT, [1, 2, 3, 4], [0, 1], request=1)
        stream.store(2, 1, [5], [2], request=1)
        assert stream.mirror.match([1, 2, 3, 4, 5, 6]) == expected
        assert stream.mirror.match(np.array([1, 2, 3, 9])) == ([1], 2 if strict else 3)
        assert stream.mirror.match([1, 2, 3, 4], "salt") == ([], 0)
        assert stream.mirror.match([]) == ([], 0)
        assert stream.mirror.nodes[1].hits == 0


def test_a_copy_stays_as_it_is(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2, 3, 4], [0, 1])
    before = stream.mirror.copy()
    stream.emit(kv.NodeSplit, node=1, upper=2, at=2)
    stream.evict(1)
    stream.open(2)
    assert list(before.nodes) == [kv.ROOT, 1]
    assert before.nodes[1].tokens.tolist() == [1, 2, 3, 4]
    assert before.check() == []
    assert before.epoch == 1
    before.apply_all(stream.events[before.seq :])
    assert before.nodes.keys() == stream.mirror.nodes.keys()
    assert (before.block_states() == stream.mirror.block_states()).all()


def test_changed_nodes_are_reported_once_and_only_live_ones(stream: Stream) -> None:
    mirror = stream.mirror
    stream.whole_request(1, 1, [1, 2], [0])
    assert mirror.take_changed() == {kv.ROOT, 1}
    assert mirror.take_changed() == set()
    stream.lock(1)
    assert mirror.take_changed() == {1}
    stream.unlock(1)
    stream.evict(1)
    assert mirror.take_changed() == {kv.ROOT}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SomethingNew(kv.Event):
    """A record of a later version."""


def test_a_strange_stream_is_noted_and_never_fatal(stream: Stream) -> None:
    mirror = stream.mirror
    stream.emit(SomethingNew)
    assert (mirror.gaps, mirror.faults) == ([], [])
    mirror.apply(kv.TokensWritten(seq=2, request=1, count=1))
    assert mirror.gaps == [(3, 2)]
    assert mirror.seq == 2, "a record from the past is skipped"
    mirror.apply(kv.PathLocked(seq=7, node=77, request=None))
    assert mirror.gaps[-1] == (3, 7)
    assert mirror.seq == 7
    assert "77" in mirror.faults[0]
    assert mirror.check() == mirror.faults
    blocks = np.array([99], np.int32)
    mirror.apply(kv.RequestOpened(seq=8, request=1, session="", namespace="", prompt_tokens=1, resumed=False))
    mirror.apply(kv.BlocksAllocated(seq=9, request=1, logical=0, blocks=blocks))
    mirror.apply(kv.BlocksAllocated(seq=10, request=1, logical=0, blocks=-blocks))
    assert len(mirror.faults) == 3
    assert mirror.rows[1].blocks == []
    assert counts(mirror) == (8, 0, 0)


def test_a_new_cache_resets_everything(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2], [0])
    stream.mirror.apply(
        kv.CacheCreated(
            seq=1, num_blocks=3, block_size=4, cache="none", eviction="lru", grain="node", strict=True
        )
    )
    assert stream.mirror.seq == 1
    assert list(stream.mirror.nodes) == [kv.ROOT]
    assert stream.mirror.requests == {}
    assert stream.mirror.block_states().tolist() == [BlockState.FREE] * 3


def test_block_states_can_not_be_written(stream: Stream) -> None:
    with pytest.raises(ValueError, match="read-only"):
        stream.mirror.block_states()[0] = 1
    with pytest.raises(IndexError):
        stream.mirror.block_state(8)


def test_check_sees_what_is_wrong(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2, 3, 4], [0, 1])
    stream.emit(kv.NodeSplit, node=1, upper=2, at=2)
    stream.mirror.nodes[1].locks = 1
    found = stream.mirror.check()
    assert "node 1 has 1 locks, 2 above it 0" in found
    assert any("evictable" in line for line in found)
    stream.mirror.nodes[1].locks = 0
    stream.mirror.nodes[1].blocks = stream.mirror.nodes[2].blocks
    assert "block 0 is in 2 nodes" in stream.mirror.check()


def test_a_hundred_thousand_nodes() -> None:
    size = 100_000
    stream = Stream(num_blocks=size, block_size=1)
    mirror = stream.mirror
    stream.events = []
    stream.open(1)
    stream.allocate(1, *range(size))
    for node in range(1, size + 1):
        stream.store(node, (node - 1) // 8, [node], [node - 1], request=1)
    stream.close(1)
    stream.open(2)
    assert counts(mirror) == (0, size, 0)
    assert mirror.nodes[size].mark.glyph == "·"
    stream.lock(size)
    assert mirror.protected == len(mirror.path(size))
    assert mirror.check() == []
    assert mirror.match(mirror.path(size)) == (mirror.path(size), len(mirror.path(size)))
    assert len(mirror.copy().nodes) == size + 1
