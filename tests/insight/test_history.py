"""What is remembered of nodes and blocks, and which branches nobody comes back to."""

from __future__ import annotations

from chatkv.insight.history import KEPT_RECORDS
from chatkv.kvcache import events as kv
from tests.insight.streams import Stream


def words(stream: Stream, node: int) -> list[str]:
    return [moment.words for moment in stream.mirror.history.of_node(node)]


def test_a_nodes_past_goes_on_through_a_split(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2, 3, 4], [0, 1])
    stream.emit(kv.NodeExtended, node=1, tokens=[5, 6], blocks=[], request=None)
    stream.emit(kv.NodeSplit, node=1, upper=2, at=2)
    stream.open(2)
    stream.emit(kv.PrefixReused, request=2, path=(2,), blocks=[0], tokens=2)
    stream.emit(kv.SlotsCopied, request=2, node=1, source=1, target=3, tokens=1)
    stream.emit(kv.NodePinned, node=2, pinned=True)
    assert words(stream, 2) == [
        "pinned",
        "reused by request 2",
        "split off: the first 2 tokens of node 1",
        "grew by 2 tokens",
        "made by request 1: 4 tokens",
    ]
    assert words(stream, 1)[:2] == [
        "1 token copied by request 2",
        "split at 2 tokens: node 2 took the first part",
    ]


def test_growing_step_by_step_is_one_line(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2], [0])
    for _ in range(3):
        stream.emit(kv.NodeExtended, node=1, tokens=[5, 6], blocks=[], request=4)
    assert words(stream, 1) == ["grew by 6 tokens in 3 steps by request 4", "made by request 1: 2 tokens"]


def test_a_blocks_past(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2], [3])
    stream.evict(1)
    assert [m.words for m in stream.mirror.history.of_block(3)] == [
        "freed: node 1 was evicted for room",
        "given to node 1 by request 1",
        "taken by request 1 as its logical block 0",
    ]
    assert stream.mirror.history.of_block(4) == []


def test_it_is_bounded_and_a_copy_stays(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2], [0])
    past = stream.mirror.copy()
    for turn in range(KEPT_RECORDS + 10):
        stream.emit(kv.NodePinned, node=1, pinned=turn % 2 == 0)
    assert len(words(stream, 1)) == KEPT_RECORDS
    assert [m.words for m in past.history.of_node(1)] == ["made by request 1: 2 tokens"]


def test_an_edited_message_leaves_a_branch_behind(stream: Stream) -> None:
    stream.whole_request(1, 1, [1, 2], [0])
    stream.store_free(2, 1, [3, 4], [1])
    mirror = stream.mirror
    left = [node.id for node in mirror.nodes.values() if mirror.left_behind(node)]
    assert left == []
    # The same session asks again, and goes another way behind node 1.
    stream.store_free(3, 1, [7, 8], [2])
    assert [node.id for node in mirror.nodes.values() if mirror.left_behind(node)] == [2]
    past = mirror.copy()
    # Another session that ends there keeps it.
    stream.open(50, "b")
    stream.emit(kv.PrefixReused, request=50, path=(1, 2), blocks=[0, 1], tokens=4)
    assert not mirror.left_behind(mirror.nodes[2])
    stream.close(50)
    assert not mirror.left_behind(mirror.nodes[2])
    assert mirror.end_of("b") == 2
    assert past.left_behind(past.nodes[2])
    stream.evict(2)
    assert mirror.end_of("b") == 1
    stream.emit(kv.CacheCleared)
    assert mirror.end_of("b") is None
