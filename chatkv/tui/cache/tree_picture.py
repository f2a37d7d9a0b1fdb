"""Which rows the tree pane has, and in what order: the whole tree or what a filter found, sorted."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from chatkv.insight.mirror import Mirror
from chatkv.tui.cache.labels import Labels
from chatkv.tui.cache.tree_filter import TreeFilter
from chatkv.tui.cache.tree_rows import TreeRows, ghost_of

SORTS = ("tree", "recency", "size", "hits")
"""Orders of siblings: as they came, last used first, most tokens first, most reused first."""

_SLICE_S = 0.008
_SLICE = 50


class TreePicture:
    """``rows`` follow the mirror as it goes on; what they cost depends on what changed, not on the tree."""

    def __init__(self, labels: Labels) -> None:
        self.rows = TreeRows()
        self.sort = SORTS[0]
        self.filter: TreeFilter | None = None
        self.names: Callable[[str], str] = str
        self._labels = labels
        self._mirror: Mirror | None = None
        self._structure = -1

    def follow(self, mirror: Mirror, other: bool) -> bool:
        """Go on to this state. ``other``: it is another tree. True where rows came, went or moved.

        What has changed is taken from the mirror: one picture is its only follower.
        """
        changed, departed = mirror.take_changed(), mirror.take_departed()
        self.rows.chains = mirror.cache == "hash"
        structure, self._structure = self._structure, mirror.structure_version
        if other or mirror is not self._mirror:
            self._mirror = mirror
            if self.filter is not None:
                self.filter = self.filter.elsewhere(mirror)
            self.rebuild()
            return True
        if self.filter is not None:
            before = self.filter.found.copy()
            self.filter.look_again(changed)
            if structure != mirror.structure_version or before != self.filter.found:
                self.rebuild()
                return True
        elif structure != mirror.structure_version:
            self.rows.update(mirror.nodes, mirror.ghosts, changed, departed)
            self.rows.resort(changed)
            return True
        elif self.sort != SORTS[0]:
            self.rows.resort(changed)
            return True
        return False

    def rebuild(self) -> None:
        """Lay everything out anew."""
        mirror = self._mirror
        if mirror is None:
            return
        self.rows.order = None if self.sort == SORTS[0] else self._order
        if self.filter is None:
            self.rows.rebuild(mirror.nodes, mirror.ghosts)
        else:
            self.rows.rebuild(self.filter.places(), self.filter.ghosts())

    def next_sort(self) -> None:
        """The next of ``SORTS``."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.rebuild()

    def find(self, text: str) -> None:
        """Show only what ``text`` finds; everything where it is empty."""
        if self._mirror is None:
            return
        self.filter = TreeFilter(text, self._mirror, self._labels, self.names) if text.strip() else None
        self.search()
        self.rebuild()

    def search(self) -> bool:
        """Look through some more of the tree; True where that found something."""
        if self.filter is None or not self.filter.pending:
            return False
        before, until = len(self.filter.found), perf_counter() + _SLICE_S
        while not self.filter.look(_SLICE) and perf_counter() < until:
            pass
        return len(self.filter.found) != before

    def _order(self, key: int) -> tuple[int, int]:
        """The smallest stands first."""
        assert self._mirror is not None, "rows come from a mirror"
        if key < 0:
            ghost = self._mirror.ghosts.get(ghost_of(key))
            if ghost is None:
                return 0, key
            figure = {"recency": ghost.evicted_seq, "size": len(ghost.tokens), "hits": 0}[self.sort]
            return -figure, ghost.node
        node = self._mirror.nodes.get(key)
        if node is None:
            return 0, key
        figure = {"recency": node.last_seq, "size": len(node.tokens), "hits": node.hits}[self.sort]
        return -figure, node.id
