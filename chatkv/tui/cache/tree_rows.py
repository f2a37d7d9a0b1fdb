"""The tree as rows on a screen, without ever laying out more than the rows that are asked for.

Every branch knows how many rows it takes (1 when folded). Adding or removing a node only walks up
to the root; finding row *i* only walks down. So neither costs anything near the size of the tree,
which at 100,000 nodes would be a pause at each step of the engine.
"""

from __future__ import annotations

import gc
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from chatkv.insight.nodes import Ghost
from chatkv.kvcache.events import ROOT

_GUIDE_LEVELS = 12


def ghost_key(ghost: int) -> int:
    """The row key of a ghost, given its key in ``Mirror.ghosts``: even for a node, odd for a node's end."""
    return -2 * ghost if ghost > 0 else 2 * ghost - 1


def ghost_of(key: int) -> int:
    """The key in ``Mirror.ghosts`` of the ghost in row ``key`` < 0."""
    return (-key - 1) // -2 if key % 2 else -key // 2


def node_of(key: int) -> int:
    """The id of the node, live or evicted, in row ``key``."""
    return key if key >= 0 else abs(ghost_of(key))


@contextmanager
def no_collection() -> Iterator[None]:
    """Meanwhile nobody looks for garbage: where many objects are made that stay, it takes longest."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Placed(Protocol):
    """What the rows need to know of a node."""

    @property
    def parent(self) -> int:
        """Its parent's id."""

    @property
    def children(self) -> Sequence[int]:
        """Ids, in the order they came."""

    @property
    def created_seq(self) -> int:
        """When it was made."""


class Branch:
    """A live node (``key`` is its id), a ghost (``key`` < 0, see ``ghost_key``) or the root."""

    __slots__ = ("folded", "key", "kids", "parent", "size")

    def __init__(self, key: int, parent: Branch | None = None) -> None:
        self.key = key
        self.parent = parent
        self.kids: list[Branch] = []
        self.size = 1
        """Rows it takes: itself and, unless folded, all of its kids' rows."""
        self.folded = False


class Row(NamedTuple):
    """A row to draw: the branch's key, the lines that lead to it, how many rows are folded away under it."""

    key: int
    guide: str
    hidden: int


class TreeRows:
    """The rows of one tree. Row 0 is the root; siblings stand in the order they came."""

    def __init__(self) -> None:
        self.order: Callable[[int], tuple[int, int]] | None = None
        """What siblings are sorted by, given a row's key; None: as they came. ``rebuild`` after a change."""
        self.chains = False
        """An only child stands right below its parent, not deeper: where each block is a node of its own."""
        self._clear()

    def _clear(self) -> None:
        self.root = Branch(ROOT)
        self._branches: dict[int, Branch] = {ROOT: self.root}
        self._live: set[int] = set()
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return self.root.size

    def __contains__(self, key: int) -> bool:
        return key in self._branches

    # -- following the tree ------------------------------------------------------------------

    def rebuild(self, nodes: Mapping[int, Placed], ghosts: Mapping[int, Ghost]) -> None:
        """Start over with another tree; what was folded stays folded where the same nodes exist."""
        folded = [key for key, branch in self._branches.items() if branch.folded]
        self._clear()
        with no_collection():
            self._lay_out(nodes)
        self._follow(nodes, ghosts, set(), set())
        self.resort(())
        for key in folded:
            self.fold(key)

    def _lay_out(self, nodes: Mapping[int, Placed]) -> None:
        """A branch for every node. At 100,000 of them a moment passes here: no call that isn't needed."""
        order = [self.root]
        for branch in order:
            if children := nodes[branch.key].children:
                branch.kids = [Branch(child, branch) for child in children]
                order += branch.kids
        for branch in reversed(order):
            if (above := branch.parent) is not None:
                above.size += branch.size
        self._branches = {branch.key: branch for branch in order}
        self._live = set(self._branches)
        self._live.discard(ROOT)
        if self.order is not None:
            for branch in order:
                if len(branch.kids) > 1:
                    branch.kids.sort(key=self._sort_key)

    def update(
        self,
        nodes: Mapping[int, Placed],
        ghosts: Mapping[int, Ghost],
        changed: Iterable[int],
        departed: Iterable[int],
    ) -> None:
        """Follow the tree to its present state. ``changed``: ids, all that came among them; ``departed``: all
        that left. Neither has to be exact in the other direction.

        Relies on what node ids promise: they are never used twice, and only a split, which makes a
        new node, and the move to a twin (``hash`` only) put a node under another parent.
        """
        changed = set(changed)
        arrived = {node for node in changed if node in nodes and node not in self._live} - {ROOT}
        left = {node for node in departed if node in self._live}
        if len(left) > 64 and len(left) > len(self) // 8:
            self.rebuild(nodes, ghosts)  # taking rows out one by one costs more than starting over
        else:
            self._follow(nodes, ghosts, arrived, left)
        for node in changed & self._live:
            branch, above = self._branches[node], self._branches.get(nodes[node].parent)
            if above is not None and branch.parent is not above:
                self._move(branch, above)

    def resort(self, changed: Iterable[int]) -> None:
        """Put the rows of these nodes (and of all ghosts), whose order may have changed, in their places.

        The others are in order already, so this costs a walk along the siblings of those that changed.
        """
        if self.order is None:
            return
        moving: dict[int, tuple[Branch, list[Branch]]] = {}
        for key in (*changed, *map(ghost_key, self._gone)):
            branch = self._branches.get(key)
            if branch is not None and branch.parent is not None:
                moving.setdefault(id(branch.parent), (branch.parent, []))[1].append(branch)
        for above, kids in moving.values():
            leaving = set(map(id, kids))
            above.kids = [kid for kid in above.kids if id(kid) not in leaving]
            for kid in kids:
                insort(above.kids, kid, key=self._sort_key)

    def _sort_key(self, branch: Branch) -> tuple[int, int]:
        assert self.order is not None, "asked for only where there is one"
        return self.order(branch.key)

    def _follow(
        self, nodes: Mapping[int, Placed], ghosts: Mapping[int, Ghost], arrived: set[int], left: set[int]
    ) -> None:
        faded = self._gone.difference(ghosts)
        for node in left:
            if node in ghosts:
                self._rename(node, ghost_key(node))
            else:
                self._remove(node)
        for ghost in faded:
            self._remove(ghost_key(ghost))
        for node in sorted(arrived):
            self._arrive(node, nodes)
        for ghost in reversed(list(ghosts)):  # leaves go first, so backwards parents come first
            if ghost_key(ghost) not in self._branches:
                self._haunt(ghost, nodes, ghosts)
        self._live -= left
        self._live |= arrived
        self._gone = set(ghosts)

    def _arrive(self, node: int, nodes: Mapping[int, Placed]) -> None:
        chain = []
        while node not in self._branches:
            chain.append(node)
            node = nodes[node].parent
        for fresh in reversed(chain):
            above = self._branches[nodes[fresh].parent]
            branch = Branch(fresh)
            self._branches[fresh] = branch
            below = self._first_known_below(fresh, nodes)
            place = above.kids.index(below) if below is not None and below.parent is above else None
            self._attach(branch, above, place)
            for child in nodes[fresh].children:
                if child in self._branches:
                    self._move(self._branches[child], branch)

    def _first_known_below(self, node: int, nodes: Mapping[int, Placed]) -> Branch | None:
        """The branch whose place the new ``node`` takes, when it is the upper part of a split."""
        while children := nodes[node].children:
            node = children[0]
            if node in self._branches:
                return self._branches[node]
        return None

    def _haunt(self, ghost: int, nodes: Mapping[int, Placed], ghosts: Mapping[int, Ghost]) -> None:
        """Put a ghost where its node stood: siblings stand in the order they were made."""
        parent = ghosts[ghost].parent
        above = self._branches.get(parent) or self._branches.get(ghost_key(parent)) or self.root

        def made(branch: Branch) -> int:
            return (
                nodes[branch.key].created_seq if branch.key >= 0 else ghosts[ghost_of(branch.key)].created_seq
            )

        branch = Branch(ghost_key(ghost))
        self._branches[branch.key] = branch
        self._attach(branch, above, bisect_right(above.kids, ghosts[ghost].created_seq, key=made))

    def _rename(self, old: int, new: int) -> None:
        branch = self._branches.pop(old)
        branch.key = new
        self._branches[new] = branch

    def _remove(self, key: int) -> None:
        branch = self._branches.pop(key)
        for kid in list(branch.kids):
            self._move(kid, self.root)
        self._detach(branch)

    def _move(self, branch: Branch, above: Branch) -> None:
        self._detach(branch)
        self._attach(branch, above)

    def _attach(self, branch: Branch, above: Branch, place: int | None = None) -> None:
        above.kids.insert(len(above.kids) if place is None else place, branch)
        branch.parent = above
        self._grow(above, branch.size)

    def _detach(self, branch: Branch) -> None:
        above = branch.parent
        assert above is not None, "the root is never detached"
        above.kids.remove(branch)
        branch.parent = None
        self._grow(above, -branch.size)

    @staticmethod
    def _grow(branch: Branch | None, rows: int) -> None:
        while branch is not None and not branch.folded:
            branch.size += rows
            branch = branch.parent

    # -- folding -----------------------------------------------------------------------------

    def folded(self, key: int) -> bool:
        """Whether the rows under ``key`` are folded away."""
        return self._branches[key].folded

    def fold(self, key: int) -> bool:
        """Fold the rows under ``key`` away; False where there is nothing to fold."""
        branch = self._branches.get(key)
        if branch is None or branch.folded or not branch.kids:
            return False
        self._grow(branch, 1 - branch.size)
        branch.folded = True
        return True

    def unfold(self, key: int) -> bool:
        """Show the rows under ``key`` again; False where they are not folded."""
        branch = self._branches.get(key)
        if branch is None or not branch.folded:
            return False
        branch.folded = False
        self._grow(branch, sum(kid.size for kid in branch.kids))
        return True

    # -- rows --------------------------------------------------------------------------------

    def parent(self, key: int) -> int | None:
        """The key above ``key``; None above the root."""
        above = self._branches[key].parent
        return None if above is None else above.key

    def first_kid(self, key: int) -> int | None:
        """The key of the first row under ``key``; None where there is none."""
        kids = self._branches[key].kids
        return kids[0].key if kids else None

    def find(self, key: int) -> int | None:
        """The row key of the same node, live or evicted by now; None when it has faded."""
        node = node_of(key)
        return next((k for k in (key, node, ghost_key(node)) if k in self._branches), None)

    def index(self, key: int) -> int:
        """The row of ``key``, or of the fold that hides it."""
        branch = self._branches[key]
        row = 0
        while (above := branch.parent) is not None:
            if above.folded:
                row = 0
            else:
                row += 1
                for kid in above.kids:
                    if kid is branch:
                        break
                    row += kid.size
            branch = above
        return row

    def key_at(self, index: int) -> int:
        """The key in row ``index``. Raises IndexError outside of the rows."""
        for row in self.rows(index, index + 1):
            return row.key
        raise IndexError(index)

    def rows(self, start: int, stop: int) -> Iterator[Row]:
        """Rows ``start`` to ``stop`` (exclusive), as far as they exist."""
        if not 0 <= start < self.root.size:
            return
        branch, path, skip = self.root, [], start
        while skip:
            skip -= 1
            for place, kid in enumerate(branch.kids):
                if skip < kid.size:
                    path.append((branch, place))
                    branch = kid
                    break
                skip -= kid.size
        for _ in range(start, stop):
            hidden = sum(kid.size for kid in branch.kids) if branch.folded else 0
            yield Row(branch.key, self._guide(path), hidden)
            if branch.kids and not branch.folded:
                path.append((branch, 0))
                branch = branch.kids[0]
                continue
            while path:
                above, place = path.pop()
                if place + 1 < len(above.kids):
                    path.append((above, place + 1))
                    branch = above.kids[place + 1]
                    break
            else:
                return

    def _guide(self, path: list[tuple[Branch, int]]) -> str:
        """The lines before a row; of a very deep one only the last levels, after its depth."""
        if not path:
            return ""
        forks = path
        if self.chains:
            forks = [step for step in path if len(step[0].kids) > 1 or step[0] is self.root]
        last = [place + 1 == len(above.kids) for above, place in forks[-_GUIDE_LEVELS:]]
        levels = ["  " if end else "│ " for end in last]
        if forks[-1] is path[-1]:
            levels[-1] = "└─" if last[-1] else "├─"
        deeper = f"{len(forks)}⋯ " if len(forks) > _GUIDE_LEVELS else ""
        return deeper + "".join(levels)
