"""What the rows of a tree are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from chatkv.insight.nodes import Ghost


class Placed(Protocol):
    """What the rows need to know of a node."""

    @property
    def parent(self) -> int:
        """Its parent's id."""

    @property
    def children(self) -> Sequence[int]:
        """Ids, in any order."""


class Source(Protocol):
    """A tree, and what was evicted from it: a mirror, or what a filter found in one."""

    @property
    def nodes(self) -> Mapping[int, Placed]:
        """Live nodes by id, the root among them. Another mapping: another tree."""

    @property
    def below(self) -> Mapping[int, int]:
        """Node id → how many nodes are at and below it."""

    @property
    def ghosts(self) -> Mapping[int, Ghost]:
        """What was evicted lately."""
