"""Which rows the tree pane has, and in what order: the whole tree or what a filter found, sorted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from time import perf_counter

from chatkv.insight.counts import Counts, Hung
from chatkv.insight.mirror import Mirror
from chatkv.insight.nodes import Ghost, Node
from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.labels import Labels
from chatkv.tui.cache.states import Look, node_look
from chatkv.tui.cache.tree.rows import TreeRows
from chatkv.tui.cache.tree.shape import Folds, Order, ghost_of, node_of

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


_AT_ONCE = 200
"""Changed nodes that are looked at again right away; more than that wait for their turn."""


class TreeFilter:
    """Every word has to be in the node's text, one of its sessions' names or the words for its state.

    ``tree`` is what was found, with all that is above it; ``folds`` what a person folded of that.
    """

    def __init__(self, text: str, mirror: Mirror, labels: Labels, names: Callable[[str], str]) -> None:
        self._text, self._words = text, text.casefold().split()
        self._mirror, self._labels, self._names = mirror, labels, names
        self.tree = FoundTree(mirror.nodes)
        self.folds = Folds()
        self._pending = list(mirror.nodes)
        """Looked at from its end: the newest first."""
        self._haunt()

    def elsewhere(self, mirror: Mirror) -> TreeFilter:
        """The same search in another tree."""
        search = TreeFilter(self._text, mirror, self._labels, self._names)
        search.folds = self.folds
        return search

    @property
    def pending(self) -> int:
        """How many nodes have not been looked at yet."""
        return len(self._pending)

    def follow(self, changed: Collection[int], departed: Collection[int]) -> None:
        """The tree has changed, as ``TreeRows.follow`` says."""
        self.tree.follow(changed, departed)
        if len(changed) > _AT_ONCE:
            self._pending += changed
        else:
            for node in changed:
                self._look_at(node)
        self._haunt()

    def look(self, count: int) -> bool:
        """Look at ``count`` more nodes; True where the rest has been looked at, too."""
        for _ in range(min(count, len(self._pending))):
            self._look_at(self._pending.pop())
        return not self._pending

    def _haunt(self) -> None:
        """The evicted nodes that are found."""
        self.tree.ghosts = {
            key: ghost
            for key, ghost in self._mirror.ghosts.items()
            if self._fits(self._labels.label(ghost.tokens), ghost.sessions, "x evicted")
        }

    def _look_at(self, id: int) -> None:
        node = self._mirror.nodes.get(id)
        if (
            node is None
            or id == ROOT
            or not self._fits(self._labels.label(node.tokens), node.sessions, self._state(node))
        ):
            self.tree.drop(id)
        else:
            self.tree.add(id)

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
