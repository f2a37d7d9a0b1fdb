"""What happened to a node or a block, as far back as a bounded log of records goes."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from chatkv.insight.kinds import KINDS, by_request
from chatkv.insight.visible import counted
from chatkv.kvcache import events as kv

KEPT_RECORDS = 5_000

_RECORDED = frozenset(event for event, kind in KINDS.items() if kind.has_past)
"""The events that say something of a node or a block."""


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
                out.append(
                    Moment(event.seq, f"grew by {counted(grown, 'token')}{often}{by_request(event.request)}")
                )
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
        told = ((event.seq, _of_block(event, block)) for event in reversed(self._records))
        return [Moment(seq, words) for seq, words in told if words]


def _of_node(event: kv.Event, node: int) -> str:
    kind = KINDS[type(event)]
    return kind.node_past(event, node) if kind.node_past is not None and node in kind.nodes(event) else ""


def _of_block(event: kv.Event, block: int) -> str:
    kind = KINDS[type(event)]
    if kind.block_past is None or not (isinstance(event, kv.CacheCleared) or block in kind.blocks(event)):
        return ""
    return kind.block_past(event, block)
