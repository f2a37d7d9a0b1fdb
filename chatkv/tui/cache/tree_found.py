"""The nodes that a filter found and those above them, as a tree of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chatkv.insight.counts import Counts, Hung
from chatkv.insight.nodes import Ghost
from chatkv.kvcache.events import ROOT


class Place:
    """A node's place in it, see ``tree_rows.Placed``."""

    __slots__ = ("children", "parent")

    def __init__(self, parent: int) -> None:
        self.parent = parent
        self.children: list[int] = []


class FoundTree:
    """``nodes``, ``below`` and ``ghosts`` are what ``tree_rows.Source`` wants, kept up node by node.

    One picture follows it, as it would follow a mirror.
    """

    def __init__(self, whole: Mapping[int, Hung]) -> None:
        """``whole``: all nodes, by id."""
        self.nodes: dict[int, Place] = {ROOT: Place(-1)}
        self.ghosts: dict[int, Ghost] = {}
        self.found: set[int] = set()
        self._changed: set[int] = set()
        self._departed: set[int] = set()
        self._whole = whole
        self._counts = Counts(self.nodes)

    @property
    def below(self) -> Mapping[int, int]:
        """Node id → how many nodes of this tree are at and below it."""
        return self._counts.below()

    def add(self, node: int) -> None:
        """It is found."""
        if node not in self.found:
            self.found.add(node)
            self._reach(node)

    def drop(self, node: int) -> None:
        """It is not, or no longer."""
        if node in self.found:
            self.found.remove(node)
            self._prune(node)

    def follow(self, changed: Iterable[int], departed: Iterable[int]) -> None:
        """The whole tree has changed, as ``TreeRows.follow`` says."""
        self.found.difference_update(departed)
        for node in changed:
            place = self.nodes.get(node)
            if place is not None and node in self._whole and place.parent != self._whole[node].parent:
                self._move(node, place)
        for node in departed:
            if node in self.nodes:
                self._prune(node)

    def take_changed(self) -> set[int]:
        """What came or moved since the last call, and what something left that was under it."""
        taken, self._changed = self._changed, set()
        return taken

    def take_departed(self) -> set[int]:
        """What left since the last call; it may have come again."""
        taken, self._departed = self._departed, set()
        return taken

    def _reach(self, node: int) -> None:
        """It and all above it have places."""
        chain = []
        while node not in self.nodes:
            chain.append(node)
            node = self._whole[node].parent
        for fresh in reversed(chain):
            self.nodes[fresh] = Place(node)
            self.nodes[node].children.append(fresh)
            self._counts.add(fresh, node)
            node = fresh
        self._changed.update(chain)

    def _prune(self, node: int) -> None:
        """It and those above it lose their places where nothing is left that was found."""
        while node != ROOT and node not in self.found and not self.nodes[node].children:
            above = self.nodes.pop(node).parent
            self.nodes[above].children.remove(node)
            self._counts.remove(node, above)
            self._changed.discard(node)
            self._departed.add(node)
            node = above
        self._changed.add(node)

    def _move(self, node: int, place: Place) -> None:
        old, new = place.parent, self._whole[node].parent
        self._reach(new)
        self.nodes[old].children.remove(node)
        self.nodes[new].children.append(node)
        place.parent = new
        self._counts.move(node, old, new)
        self._changed.update((node, new))
        self._prune(old)
