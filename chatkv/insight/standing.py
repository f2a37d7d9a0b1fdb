"""When a node would be evicted: its place among the leaves that could go, in the strategy's order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chatkv.insight.captions import ORDER
from chatkv.insight.nodes import Node
from chatkv.insight.visible import counted
from chatkv.kvcache.events import ROOT
from chatkv.kvcache.eviction import STRATEGIES, Key

if TYPE_CHECKING:
    from chatkv.insight.state import MirrorState


class _Candidate(NamedTuple):
    """What a strategy looks at. Priorities are in no record, so that strategy's order is not known."""

    last: int
    created: int
    hits: int
    priority: int = 0


class Standing(NamedTuple):
    """``place`` 1 goes next, of ``leaves``; right after ``before``. None: not known, or it can't go now."""

    place: int | None
    leaves: int
    before: int | None
    words: str


def standing(mirror: MirrorState, node: Node) -> Standing:
    """When ``node``, a live one, would have to go if room were needed now. Looks at every leaf."""
    if node.id == ROOT:
        return Standing(None, 0, None, "the root is never evicted")
    if node.locks:
        who = counted(node.locks, "request")
        return Standing(None, 0, None, f"can't be evicted: {who} {'uses' if node.locks == 1 else 'use'} it")
    if mirror.cache == "hash":
        return Standing(None, 0, None, "evicted when its block reaches the head of the free queue")
    if node.children:
        below = counted(len(node.children), "node")
        return Standing(None, 0, None, f"not before the {below} under it: leaves go first")
    if mirror.eviction not in STRATEGIES or mirror.eviction == "priority":
        return Standing(None, 0, None, f"evicted when its turn comes by {mirror.eviction}")
    mine = eviction_key(mirror.eviction, node)
    place, leaves = 1, 0
    before: tuple[Key, int] | None = None
    for other in mirror.nodes.values():
        if other.locks or other.children or other.id == ROOT:
            continue
        leaves += 1
        key = eviction_key(mirror.eviction, other)
        if key < mine:
            place += 1
            if before is None or key > before[0]:
                before = key, other.id
    rule = f"{ORDER[mirror.eviction]} first" + (", pinned ones last" if node.pinned else "")
    turn = "evicted next" if place == 1 else f"evicted as number {place}"
    after = "" if before is None else f", right after node {before[1]}"
    return Standing(
        place, leaves, before and before[1], f"{turn} of {counted(leaves, 'leaf')} ({rule}){after}"
    )


def eviction_key(strategy: str, node: Node) -> Key:
    """The smallest goes first."""
    candidate = _Candidate(node.last_seq, node.created_seq, node.hits)
    return (int(node.pinned), *STRATEGIES[strategy].key(candidate))
