"""Which nodes a typed filter finds, looked for a slice at a time so that a large tree makes no pause."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from chatkv.insight.mirror import Ghost, Mirror, Node
from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.labels import Labels
from chatkv.tui.cache.states import Look, node_look

MOST_FOUND = 2_000
"""Found nodes that are shown: the newest ones."""


class Place(NamedTuple):
    """A node's place in the tree of what was found, see ``tree_rows.Placed``."""

    parent: int
    children: list[int]
    created_seq: int


class TreeFilter:
    """Every word has to be in the node's text, one of its sessions' names or the words for its state."""

    def __init__(self, text: str, mirror: Mirror, labels: Labels, names: Callable[[str], str]) -> None:
        self._text, self._words = text, text.casefold().split()
        self._mirror, self._labels, self._names = mirror, labels, names
        self.found: set[int] = set()
        self._pending: deque[int] = deque(sorted(mirror.nodes, reverse=True))

    def elsewhere(self, mirror: Mirror) -> TreeFilter:
        """The same search in another tree."""
        return TreeFilter(self._text, mirror, self._labels, self._names)

    @property
    def pending(self) -> int:
        """How many nodes have not been looked at yet."""
        return len(self._pending)

    def look_again(self, nodes: Iterable[int]) -> None:
        """These have changed."""
        for node in nodes:
            self._look_at(node)

    def look(self, count: int) -> bool:
        """Look at ``count`` more nodes; True where the rest has been looked at, too."""
        for _ in range(min(count, len(self._pending))):
            self._look_at(self._pending.popleft())
        return not self._pending

    def places(self) -> Mapping[int, Place]:
        """What was found (the newest ``MOST_FOUND``), and the nodes above it, as a tree."""
        nodes = self._mirror.nodes
        self.found.intersection_update(nodes)
        places: dict[int, Place] = {ROOT: Place(-1, [], 0)}
        for found in sorted(sorted(self.found)[-MOST_FOUND:]):
            for node in self._up(found, nodes):
                if node.id in places:
                    break
                places[node.id] = Place(node.parent, [], node.created_seq)
        for id in sorted(places.keys() - {ROOT}, key=lambda id: (places[id].created_seq, id)):
            places[places[id].parent].children.append(id)
        return places

    def ghosts(self) -> Mapping[int, Ghost]:
        """The evicted nodes that are found."""
        return {
            key: ghost
            for key, ghost in self._mirror.ghosts.items()
            if self._fits(self._labels.label(ghost.tokens), ghost.sessions, "x evicted")
        }

    @staticmethod
    def _up(node: int, nodes: Mapping[int, Node]) -> Iterator[Node]:
        while node != ROOT:
            yield nodes[node]
            node = nodes[node].parent

    def _look_at(self, id: int) -> None:
        node = self._mirror.nodes.get(id)
        if (
            node is None
            or id == ROOT
            or not self._fits(self._labels.label(node.tokens), node.sessions, self._state(node))
        ):
            self.found.discard(id)
        else:
            self.found.add(id)

    def _state(self, node: Node) -> str:
        mirror, look = self._mirror, node_look(node)
        words = [look.word]
        if node.locks:
            words.append(Look.LOCKED.word)
        if node.pinned:
            words.append(Look.PINNED.word)
        if node.copied_epoch == mirror.epoch:
            words.append(Look.COPIED.word)
        if mirror.left_behind(node):
            words.append(Look.LEFT.word)
        return " ".join(words)

    def _fits(self, label: str, sessions: Iterable[str], state: str) -> bool:
        said = f"{label}\n{' '.join(self._names(key) for key in sessions)}\n{state}".casefold()
        return all(word in said for word in self._words)
