"""Which rows the tree pane has, and in what order: the whole tree or what a filter found, sorted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import perf_counter

from chatkv.insight.mirror import Mirror
from chatkv.insight.nodes import Ghost, Node
from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.labels import Labels
from chatkv.tui.cache.tree_filter import TreeFilter
from chatkv.tui.cache.tree_folds import Folds
from chatkv.tui.cache.tree_keys import ghost_of, node_of
from chatkv.tui.cache.tree_kids import Order
from chatkv.tui.cache.tree_rows import TreeRows

_FIGURES: dict[str, tuple[Callable[[Node], int], Callable[[Ghost], int]]] = {
    "tree": (lambda node: node.created_seq, lambda ghost: ghost.created_seq),
    "recency": (lambda node: -node.last_seq, lambda ghost: -ghost.evicted_seq),
    "size": (lambda node: -len(node.tokens), lambda ghost: -len(ghost.tokens)),
    "hits": (lambda node: -node.hits, lambda ghost: 0),
}
"""The smallest stands first."""
SORTS = tuple(_FIGURES)
"""Orders of siblings: as they came, last used first, most tokens first, most reused first."""

_SLICE_S = 0.008
_SLICE = 50


class TreePicture:
    """Owns ``rows``, which follow a mirror. That costs what has changed and what is looked at."""

    def __init__(self, labels: Labels) -> None:
        self.sort = SORTS[0]
        self.filter: TreeFilter | None = None
        self.names: Callable[[str], str] = str
        self._labels = labels
        self._mirror = Mirror()
        self._nodes = self._mirror.nodes
        self._at = (-1, -1)
        self._folds = Folds()
        self._lay_out()

    @property
    def late(self) -> bool:
        """The mirror has gone on: ``rows`` may be read after the next ``follow`` only."""
        return self._at != (self._mirror.seq, self._mirror.structure_version)

    def follow(self, mirror: Mirror | None = None) -> bool:
        """Go on to this state, of the same mirror where none is given. True where rows came, went or moved.

        What has changed is taken from the mirror: one picture is its only follower.
        """
        mirror = self._mirror if mirror is None else mirror
        changed, departed = mirror.take_changed(), mirror.take_departed()
        structure, self._at = self._at[1], (mirror.seq, mirror.structure_version)
        if mirror is not self._mirror or mirror.nodes is not self._nodes:
            emptied = mirror is self._mirror
            self._mirror, self._nodes = mirror, mirror.nodes
            if self.filter is not None:
                self.filter = self.filter.elsewhere(mirror)
                self._search()
            for folds in (self._folds, *([self.filter.folds] if self.filter else [])):
                folds.others &= {ROOT} if emptied else folds.others  # ids may begin anew
            self._lay_out()
            return True
        before = self.rows.version, len(self.rows)
        if self.filter is not None:
            self.filter.follow(changed, departed)
            self._follow_found(changed)
        elif structure != mirror.structure_version or self.sort != SORTS[0]:
            self.rows.follow(changed, departed)
        return before != (self.rows.version, len(self.rows))

    def next_sort(self) -> None:
        """The next of ``SORTS``."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self._lay_out()

    def find(self, text: str) -> None:
        """Show only what ``text`` finds; everything where it is empty."""
        self.filter = TreeFilter(text, self._mirror, self._labels, self.names) if text.strip() else None
        self._search()
        self._lay_out()

    def search(self) -> bool:
        """Look through some more of the tree; True where rows came or went."""
        before = self.rows.version, len(self.rows)
        self._search()
        self._follow_found(())
        return before != (self.rows.version, len(self.rows))

    def _search(self) -> None:
        if self.filter is not None:
            until = perf_counter() + _SLICE_S
            while not self.filter.look(_SLICE) and perf_counter() < until:
                pass

    def _follow_found(self, changed: Collection[int]) -> None:
        """``changed``: by the mirror, as far as they are found their order may have changed."""
        if self.filter is not None:
            tree = self.filter.tree
            came, went = tree.take_changed(), tree.take_departed()
            self.rows.follow(came.union(tree.nodes.keys() & changed), went)

    def _lay_out(self) -> None:
        """Other rows, or the same in another order. Nothing is looked at yet."""
        if self.filter is None:
            self.rows = TreeRows(self._mirror, self._order(), self._folds)
        else:
            self.filter.tree.take_changed(), self.filter.tree.take_departed()
            self.rows = TreeRows(self.filter.tree, self._order(), self.filter.folds)
        self.rows.chains = self._mirror.cache == "hash"

    def _order(self) -> Callable[[int], Order]:
        of_node, of_ghost = _FIGURES[self.sort]
        nodes, mirror = self._nodes, self._mirror

        def order(key: int) -> Order:
            if key >= 0:
                return of_node(nodes[key]), key
            return of_ghost(mirror.ghosts[ghost_of(key)]), node_of(key), key

        return order
