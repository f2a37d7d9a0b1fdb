"""What happened to a node or a block, as far back as a bounded log of records goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from chatkv.insight.visible import counted
from chatkv.kvcache import events as kv

KEPT_RECORDS = 5_000

RECORDED = (
    kv.NodeStored,
    kv.NodeExtended,
    kv.NodeSplit,
    kv.PrefixReused,
    kv.SlotsCopied,
    kv.RowRepointed,
    kv.NodeEvicted,
    kv.NodeTrimmed,
    kv.NodePinned,
    kv.BlocksAllocated,
    kv.BlocksFreed,
    kv.CacheCleared,
)
"""The records that say something of a node or a block."""
_RECORDED = frozenset(RECORDED)


class Moment(NamedTuple):
    """``seq`` and what happened then, in words."""

    seq: int
    words: str


class History:
    """The latest ``KEPT_RECORDS`` of such records; ``count`` grows with each."""

    def __init__(self) -> None:
        self.count = 0
        self._records: deque[kv.Event] = deque(maxlen=KEPT_RECORDS)

    def add(self, event: kv.Event) -> None:
        """Remember it where it says something of a node or a block."""
        if type(event) in _RECORDED:
            self._records.append(event)
            self.count += 1

    def copy(self) -> History:
        """An independent copy."""
        twin = History()
        twin.count, twin._records = self.count, self._records.copy()
        return twin

    def of_node(self, node: int) -> list[Moment]:
        """What happened to ``node``, newest first. Before it was split off, that is its other half's past."""
        out: list[Moment] = []
        grown, steps = 0, 0
        for event in reversed(self._records):
            if isinstance(event, kv.NodeExtended) and event.node == node:
                if steps:
                    out.pop()
                grown, steps = grown + len(event.tokens), steps + 1
                often = f" in {steps} steps" if steps > 1 else ""
                out.append(Moment(event.seq, f"grew by {counted(grown, 'token')}{often}{_by(event.request)}"))
                continue
            words = _of_node(event, node)
            if words:
                out.append(Moment(event.seq, words))
                grown, steps = 0, 0
            if isinstance(event, kv.NodeSplit) and event.upper == node:
                node = event.node
            elif isinstance(event, kv.NodeStored) and event.node == node:
                break
        return out

    def of_block(self, block: int) -> list[Moment]:
        """What happened to physical block ``block``, newest first."""
        return [
            Moment(event.seq, words) for event in reversed(self._records) for words in _of_block(event, block)
        ]


def _by(request: int | None) -> str:
    return "" if request is None else f" by request {request}"


def _of_node(event: kv.Event, node: int) -> str:
    match event:
        case kv.NodeStored() if event.node == node:
            return f"made{_by(event.request)}: {counted(len(event.tokens), 'token')}"
        case kv.NodeSplit() if event.node == node:
            return f"split at {counted(event.at, 'token')}: node {event.upper} took the first part"
        case kv.NodeSplit() if event.upper == node:
            return f"split off: the first {counted(event.at, 'token')} of node {event.node}"
        case kv.PrefixReused() if node in event.path:
            return f"reused by request {event.request}"
        case kv.SlotsCopied() if event.node == node:
            return f"{counted(event.tokens, 'token')} copied by request {event.request}"
        case kv.NodeEvicted() if event.node == node:
            return f"evicted for {event.reason}{_by(event.request)}, unused for {event.age} events"
        case kv.NodeTrimmed() if event.node == node:
            return f"lost its last {counted(event.tokens, 'token')} for {event.reason}{_by(event.request)}"
        case kv.NodePinned() if event.node == node:
            return "pinned" if event.pinned else "no longer pinned"
    return ""


def _of_block(event: kv.Event, block: int) -> Iterator[str]:
    match event:
        case kv.BlocksAllocated() if (event.blocks == block).any():
            at = event.logical + int((event.blocks == block).argmax())
            yield f"taken by request {event.request} as its logical block {at}"
        case kv.NodeStored() | kv.NodeExtended() if (event.blocks == block).any():
            yield f"given to node {event.node}{_by(event.request)}"
        case kv.PrefixReused() if (event.blocks == block).any():
            yield f"reused by request {event.request}"
        case kv.SlotsCopied() if event.source == block:
            yield f"{counted(event.tokens, 'token')} copied to block {event.target}"
        case kv.SlotsCopied() if event.target == block:
            yield f"got {counted(event.tokens, 'token')} copied from block {event.source}"
        case kv.RowRepointed() if (event.new == block).any():
            yield f"request {event.request} found it in place of its own copy"
        case kv.NodeEvicted() | kv.NodeTrimmed() if (event.blocks == block).any():
            yield f"freed: node {event.node} was evicted for {event.reason}{_by(event.request)}"
        case kv.BlocksFreed() if (event.blocks == block).any():
            yield f"given back by request {event.request}: {event.reason}"
        case kv.CacheCleared():
            yield "freed: the cache was cleared"
