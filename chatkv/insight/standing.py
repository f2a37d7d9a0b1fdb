"""When a node would be evicted: its place among the leaves that could go, in the strategy's order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chatkv.insight.kinds import ORDER
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
    turn = Turn(mirror, node)
    turn.count(len(mirror.nodes))
    return turn.standing


class Turn:
    """The same, counted bit by bit, so that a large tree makes no pause. It may change meanwhile."""

    def __init__(self, mirror: MirrorState, node: Node) -> None:
        self._mirror, self._node = mirror, node
        self._known = _known(mirror, node)
        self._mine: Key = () if self._known else eviction_key(mirror.eviction, node)
        self._left = [] if self._known else list(mirror.nodes)
        self._place, self._leaves = 1, 0
        self._before: tuple[Key, int] | None = None

    def count(self, nodes: int) -> bool:
        """Look at so many more; True where all have been looked at."""
        strategy, all_nodes = self._mirror.eviction, self._mirror.nodes
        for _ in range(min(nodes, len(self._left))):
            other = all_nodes.get(self._left.pop())
            if other is None or other.locks or other.children or other.id == ROOT:
                continue
            self._leaves += 1
            key = eviction_key(strategy, other)
            if key < self._mine:
                self._place += 1
                if self._before is None or key > self._before[0]:
                    self._before = key, other.id
        return not self._left

    @property
    def standing(self) -> Standing:
        """By what has been looked at."""
        if self._known:
            return Standing(None, 0, None, self._known)
        name = self._mirror.eviction
        rule = f"{ORDER.get(name, name)} first" + (", pinned ones last" if self._node.pinned else "")
        turn = "evicted next" if self._place == 1 else f"evicted as number {self._place}"
        after = "" if self._before is None else f", right after node {self._before[1]}"
        words = f"{turn} of {counted(self._leaves, 'leaf')} ({rule}){after}"
        return Standing(self._place, self._leaves, self._before and self._before[1], words)


def _known(mirror: MirrorState, node: Node) -> str:
    """What can be said without counting; empty where it has to be counted."""
    if node.id == ROOT:
        return "the root is never evicted"
    if node.locks:
        who = counted(node.locks, "request")
        return f"can't be evicted: {who} {'uses' if node.locks == 1 else 'use'} it"
    if mirror.cache == "hash":
        return "evicted when its block reaches the head of the free queue"
    if node.children:
        return f"not before the {counted(len(node.children), 'node')} under it: leaves go first"
    if mirror.eviction not in STRATEGIES or mirror.eviction == "priority":
        return f"evicted when its turn comes by {mirror.eviction}"
    return ""


def eviction_key(strategy: str, node: Node) -> Key:
    """The smallest goes first."""
    candidate = _Candidate(node.last_seq, node.created_seq, node.hits)
    return (int(node.pinned), *STRATEGIES[strategy].key(candidate))
