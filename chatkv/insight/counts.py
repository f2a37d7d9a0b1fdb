"""How many nodes of a tree are at and below each of them, so that nobody has to walk it to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from chatkv.kvcache.events import ROOT

_OWED = 512


class Hung(Protocol):
    """A node that hangs somewhere."""

    @property
    def parent(self) -> int:
        """Its parent's id."""


class Counts:
    """Told of each node that comes, goes or moves; ``below`` says how many there are.

    A new node counts for every node above it. Telling them each time would make a chain of blocks,
    thousands deep in a hash cache, cost the square of its length: what is owed to a node is noted, and
    noted debts are passed up together.
    """

    def __init__(self, nodes: Mapping[int, Hung]) -> None:
        """``nodes``: the tree itself, by id, read whenever debts are passed up."""
        self._nodes = nodes
        self._below = {ROOT: 1}
        self._owed: dict[int, int] = {}
        """Node → what it and all above it have not been told yet."""

    def below(self) -> Mapping[int, int]:
        """Node id → nodes at and below it. Up to date until the tree changes again."""
        self._settle()
        return self._below

    def add(self, node: int, parent: int) -> None:
        """A new leaf hangs under ``parent``."""
        self._below[node] = 1
        self._owe(parent, 1)

    def remove(self, node: int, parent: int) -> None:
        """A leaf is no longer under ``parent``."""
        del self._below[node]
        self._owe(parent, self._owed.pop(node, 0) - 1)

    def insert(self, upper: int, node: int, parent: int) -> None:
        """A new node, ``upper``, came between ``node`` and ``parent``. ``nodes`` knows it already."""
        # What is still owed from below ``node`` passes through both.
        self._below[upper] = self._below[node] + 1
        self._owe(parent, 1)

    def move(self, node: int, old: int, new: int) -> None:
        """``node``, and all below it, hangs under ``new`` instead of ``old``. ``nodes`` knows it already."""
        # What is owed from below ``node`` will be told to those above ``new``.
        count = self._below[node]
        self._owe(old, -count)
        self._owe(new, count)

    def copy(self, nodes: Mapping[int, Hung]) -> Counts:
        """Those of a copy of the tree, ``nodes``."""
        self._settle()
        twin = Counts(nodes)
        twin._below = self._below.copy()
        return twin

    def _owe(self, node: int, count: int) -> None:
        self._owed[node] = self._owed.get(node, 0) + count
        if len(self._owed) > _OWED:
            self._settle()

    def _settle(self) -> None:
        owed, below, nodes = self._owed, self._below, self._nodes
        while owed:
            node, count = owed.popitem()  # the newest first: it is the lowest, as a rule
            while count:
                below[node] += count
                if node == ROOT:
                    break
                node = nodes[node].parent
                if node in owed:
                    owed[node] += count
                    break
