"""The tree as rows on a screen, found and laid out only where somebody looks.

A tree knows how many nodes are at and below each of its own (``Source.below``), and that is how many
rows it takes, but for ghosts, which are few, and folds, which a person made one by one. So row *i* is
found by going down from the root, and of all other nodes nothing is known here: another order, other
folds or another tree cost nothing but the rows on the screen. Siblings are sorted when they are first
looked at and kept up from then on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Protocol

from chatkv.insight.nodes import Ghost
from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.tree.shape import Folds, Guide, Kids, Order, ghost_key, node_of, upwards

_MANY = 1_000
"""Changes at once from which looking again is cheaper than keeping up."""
_KEPT = 20_000
"""Rows that somebody looked under, from which it is time to forget them."""


class Row(NamedTuple):
    """A row to draw: its key, the lines that lead to it, how many rows are folded away under it."""

    key: int
    guide: str
    hidden: int


class TreeRows:
    """The rows of ``source`` as it was at the last ``follow``: who changes it calls that before reading on.

    Row 0 is the root.
    """

    def __init__(self, source: Source, order: Callable[[int], Order], folds: Folds) -> None:
        """``order``: a row's key → its place among its siblings, with the key as the last number."""
        self.chains = False
        """An only child stands right below its parent, not deeper: where each block is a node of its own."""
        self._source, self._order, self._folds = source, order, folds
        self._haunts = Haunts()
        self._looked = Looked()
        self._start()

    def __len__(self) -> int:
        return self._size(ROOT)

    def __contains__(self, key: int) -> bool:
        return key in self._nodes if key >= 0 else key in self._haunts.above

    @property
    def version(self) -> int:
        """Grows whenever a row that was looked at comes, goes or moves."""
        return self._looked.version

    # -- following the tree ------------------------------------------------------------------

    def _start(self) -> None:
        """Look at everything anew."""
        self._nodes, self._below = self._source.nodes, self._source.below
        self._looked.clear()
        self._haunts.look(self._source.ghosts, self._nodes.__contains__)
        for key in [key for key in self._folds.others if key >= 0 and key not in self]:
            if ghost_key(key) in self:
                self._folds.rename(key, ghost_key(key))
        self._count()

    def follow(self, changed: Collection[int], departed: Collection[int]) -> None:
        """The source has changed. ``changed``: nodes that came, moved or may stand elsewhere among their
        siblings, and those something left that was under them; ``departed``: nodes that left.
        """
        source, looked = self._source, self._looked
        new, much = source.nodes is not self._nodes, len(changed) + len(departed) > _MANY
        if new or much or len(looked) > _KEPT:
            self._start()
            return
        self._below = source.below
        ghosts, haunted, inside = self._haunts.above, self._haunts.below, self._inside
        self._haunts.look(source.ghosts, self._nodes.__contains__)
        for key in chain(departed, (ghost for ghost in ghosts if ghost not in self._haunts.above)):
            looked.leave(key)
            if key >= 0 and ghost_key(key) in self._haunts.above:
                self._folds.rename(key, ghost_key(key))
            else:
                self._folds.drop((key,))
        self._count()
        live = [key for key in changed if key in self._nodes]
        for key in chain(live, self._haunts.above):
            above = self.parent(key)
            if above is not None and (key in looked or looked.get(above) is not None):
                looked.place(key, above, self._order(key), self._size(key))
        resized = upwards(live, self.parent)
        self._resize(resized, haunted, inside)

    def _count(self) -> None:
        """Of ghosts and folds."""
        self._haunts.count(self.parent)
        chosen = [key for key in self._folds.others if key in self]
        self._inside = self._folds.inside(chosen, self.parent, self._whole, self._kid_count)

    def _resize(self, keys: Iterable[int], haunted: Mapping[int, int], inside: Mapping[int, int]) -> None:
        """``haunted`` and ``inside``: as they were."""
        differing = _differing(haunted, self._haunts.below), _differing(inside, self._inside)
        for key in chain(keys, *differing):
            if key in self._looked:
                self._looked.resize(key, self._size(key))

    # -- how many rows -----------------------------------------------------------------------

    def _whole(self, key: int) -> int:
        """The rows of ``key`` and all below it, were nothing folded."""
        return (self._below[key] if key >= 0 else 1) + self._haunts.below.get(key, 0)

    def _kid_count(self, key: int) -> int:
        return len(self._nodes[key].children if key >= 0 else ()) + len(self._haunts.under.get(key, ()))

    def _size(self, key: int) -> int:
        """The rows it takes with all below it."""
        if key in self._folds:
            return 1
        inside = self._inside.get(key)
        return self._whole(key) if inside is None else 1 + inside

    def _kids_of(self, key: int) -> Kids:
        kids = self._looked.get(key)
        if kids is None:
            live = self._nodes[key].children if key >= 0 else ()
            orders = [self._order(kid) for kid in chain(live, self._haunts.under.get(key, ()))]
            orders.sort()
            kids = self._looked.keep(key, orders, [self._size(order[-1]) for order in orders])
        return kids

    # -- folding -----------------------------------------------------------------------------

    def folded(self, key: int) -> bool:
        """Whether the rows under ``key`` are folded away."""
        return key in self._folds

    def fold(self, key: int) -> bool:
        """Fold the rows under ``key`` away; False where there is nothing to fold."""
        return key in self and self._kid_count(key) > 0 and self._set((key,), True)

    def unfold(self, key: int) -> bool:
        """Show the rows under ``key`` again; False where there are none, or they are shown."""
        return key in self and self._kid_count(key) > 0 and self._set((key,), False)

    def fold_all(self, folded: bool) -> None:
        """Fold all rows under the root's children, or unfold all there are."""
        self._folds.set_all(folded)
        self._start()

    def reveal(self, key: int) -> bool:
        """Unfold whatever hides ``key``; False where nothing does."""
        return self._set(upwards((key,), self.parent)[1:], False)

    def _set(self, keys: Sequence[int], folded: bool) -> bool:
        others = [key for key in keys if (key in self._folds) != folded]
        for key in others:
            self._folds.set(key, folded)
        inside = self._inside
        self._count()
        self._resize(others, self._haunts.below, inside)
        return bool(others)

    # -- rows --------------------------------------------------------------------------------

    def parent(self, key: int) -> int | None:
        """The key above ``key``; None above the root."""
        if key < 0:
            return self._haunts.above[key]
        return None if key == ROOT else self._nodes[key].parent

    def first_kid(self, key: int) -> int | None:
        """The key of the first row under ``key``; None where there is none."""
        kids = self._kids_of(key).keys
        return kids[0] if kids else None

    def find(self, key: int) -> int | None:
        """The row key of the same node, live or evicted by now; None when it has faded."""
        node = node_of(key)
        return next((k for k in (key, node, ghost_key(node)) if k in self), None)

    def index(self, key: int) -> int:
        """The row of ``key``, or of the fold that hides it."""
        row = 0
        while (above := self.parent(key)) is not None:
            if above in self._folds:
                row = 0
            else:
                kids = self._kids_of(above)
                row += 1 + kids.before(self._looked.order(key))
            key = above
        return row

    def key_at(self, index: int) -> int:
        """The key in row ``index``. Raises IndexError outside of the rows."""
        for row in self.rows(index, index + 1):
            return row.key
        raise IndexError(index)

    def rows(self, start: int, stop: int) -> Iterator[Row]:
        """Rows ``start`` to ``stop`` (exclusive), as far as they exist."""
        if not 0 <= start < len(self):
            return
        key, skip, guide = ROOT, start, Guide(self.chains)
        while skip:
            kids = self._kids_of(key)
            place, skip = kids.find(skip - 1)
            guide.down(kids, place)
            key = kids.keys[place]
        for _ in range(start, stop):
            folded = key in self._folds
            yield Row(key, guide.lines(), self._whole(key) - 1 if folded else 0)
            if not folded and len(kids := self._kids_of(key)):
                guide.down(kids, 0)
                key = kids.keys[0]
                continue
            if (step := guide.on()) is None:
                return
            key = step.kids.keys[step.place]


def _differing(a: Mapping[int, int], b: Mapping[int, int]) -> Iterator[int]:
    return (key for key in a.keys() | b.keys() if a.get(key) != b.get(key))


class Looked:
    """For some rows the rows under them, all of them or none. Told of what comes, goes, moves and grows."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every change."""
        self._kids: dict[int, Kids] = {}
        self._placed: dict[int, tuple[int, Order]] = {}
        """Row → which of ``_kids`` it is in, and where there."""

    def __len__(self) -> int:
        return len(self._kids)

    def get(self, key: int) -> Kids | None:
        """What is under ``key``; None where nobody looked."""
        return self._kids.get(key)

    def order(self, key: int) -> Order:
        """Where ``key`` stands among its siblings, which somebody looked at."""
        return self._placed[key][1]

    def keep(self, key: int, orders: list[Order], rows: Sequence[int]) -> Kids:
        """Somebody looks under ``key``: it has rows in these ``orders``, sorted, and of these sizes."""
        for order in orders:
            self._placed[order[-1]] = key, order
        kids = self._kids[key] = Kids(orders, list(rows))
        return kids

    def clear(self) -> None:
        """Nobody has looked yet."""
        self._kids.clear()
        self._placed.clear()
        self.version += 1

    def place(self, key: int, above: int, order: Order, size: int) -> None:
        """It belongs under ``above``, in this order; of this size, if it comes there only now."""
        placed, kids = self._placed.get(key), self._kids.get(above)
        if placed is not None and placed == (above, order):
            return
        self.lift(key)
        if kids is not None:
            kids.put(order, size)
            self._placed[key] = above, order
            self.version += 1

    def lift(self, key: int) -> None:
        """Take it from its siblings."""
        if (placed := self._placed.pop(key, None)) is not None:
            self._kids[placed[0]].take(placed[1])
            self.version += 1

    def leave(self, key: int) -> None:
        """It is no more; what is under it has gone, too, or will be placed elsewhere."""
        self.lift(key)
        if (kids := self._kids.pop(key, None)) is not None:
            for kid in kids.keys:
                if self._placed[kid][0] == key:
                    del self._placed[kid]

    def resize(self, key: int, size: int) -> None:
        """It takes so many rows now."""
        placed = self._placed.get(key)
        if placed is not None and self._kids[placed[0]].resize(placed[1], size):
            self.version += 1

    def __contains__(self, key: int) -> bool:
        return key in self._placed


class Haunts:
    """They are few, so they are looked at all together whenever something has moved."""

    def __init__(self) -> None:
        self.above: dict[int, int] = {}
        """Ghost → the row it hangs under: a live node, another ghost, or the root where that is gone."""
        self.under: dict[int, list[int]] = {}
        """Row → the ghosts right under it."""
        self.below: Mapping[int, int] = {}
        """Row → all ghosts below it; rows with none are not in it."""

    def look(self, ghosts: Mapping[int, Ghost], lives: Callable[[int], bool]) -> None:
        """These are all there are; ``lives``: whether a node is in the tree."""
        self.above, self.under = {}, {}
        for key, ghost in ghosts.items():
            above = ghost.parent
            if not lives(above):
                above = ghost_key(above) if above in ghosts else ROOT
            self.above[ghost_key(key)] = above
            self.under.setdefault(above, []).append(ghost_key(key))

    def count(self, above: Callable[[int], int | None]) -> None:
        """Count them anew for all rows above them; see ``upwards``."""
        below: Counter[int] = Counter()
        for key in upwards(self.above, above):
            if (up := above(key)) is not None:
                below[up] += below[key] + (key in self.above)
        self.below = {key: count for key, count in below.items() if count}


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
