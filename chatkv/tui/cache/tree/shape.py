"""Where the tree has rows: their keys, folds, the order of children, the guides before a row."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from chatkv.kvcache.events import ROOT


def ghost_key(ghost: int) -> int:
    """The row key of a ghost, given its key in ``Mirror.ghosts``: even for a node, odd for a node's end."""
    return -2 * ghost if ghost > 0 else 2 * ghost - 1


def ghost_of(key: int) -> int:
    """The key in ``Mirror.ghosts`` of the ghost in row ``key`` < 0."""
    return (-key - 1) // -2 if key % 2 else -key // 2


def node_of(key: int) -> int:
    """The id of the node, live or evicted, in row ``key``."""
    return key if key >= 0 else abs(ghost_of(key))


def upwards(keys: Iterable[int], above: Callable[[int], int | None]) -> list[int]:
    """``keys`` and all that is above them, each once, and each before what is above it.

    ``above``: a key → the key above it; None above the root.
    """
    seen: set[int] = set()
    chains: list[list[int]] = []
    for key in keys:
        chain: list[int] = []
        at: int | None = key
        while at is not None and at not in seen:
            seen.add(at)
            chain.append(at)
            at = above(at)
        chains.append(chain)
    # A chain ends below a node of an earlier one, so the later ones stand first.
    return [key for chain in reversed(chains) for key in chain]


class Folds:
    """Nothing is folded, or all below the root is, but for the rows that a person chose otherwise."""

    def __init__(self) -> None:
        self.all = False
        self.others: set[int] = set()
        """Rows for which the contrary holds. Some may be out of sight, or have left unseen."""

    def __contains__(self, key: int) -> bool:
        return (key in self.others) != (self.all and key != ROOT)

    def set(self, key: int, folded: bool) -> None:
        """Fold or unfold a row."""
        if (key in self) != folded:
            self.others ^= {key}

    def set_all(self, folded: bool) -> None:
        """Fold every row below the root, or none."""
        self.all = folded
        self.others.clear()

    def rename(self, old: int, new: int) -> None:
        """A row has another key now."""
        if old in self.others:
            self.others.remove(old)
            self.others.add(new)

    def drop(self, keys: Iterable[int]) -> None:
        """These rows are no more."""
        self.others.difference_update(keys)

    def inside(
        self,
        chosen: Iterable[int],
        above: Callable[[int], int | None],
        whole: Callable[[int], int],
        kids: Callable[[int], int],
    ) -> Mapping[int, int]:
        """How many rows stand under a row when it is unfolded, for those where folds make a difference.

        ``chosen``: those of ``others`` that exist. ``above``: see ``upwards``. ``whole``: the rows that a
        row and all below it would take, were nothing folded. ``kids``: how many rows are right under it.
        Looks at the rows a person chose and those above.
        """
        more: Counter[int] = Counter()
        inside: dict[int, int] = {}
        for key in upwards((*chosen, ROOT) if self.all else chosen, above):
            usual = 1 if self.all else whole(key)
            inside[key] = more[key] + (kids(key) if self.all else usual - 1)
            if (up := above(key)) is not None:
                more[up] += (1 if key in self else 1 + inside[key]) - usual
        return inside


Order = tuple[int, ...]
"""Where a row stands among its siblings: the smallest first. Its last number is the row's key."""


class Kids:
    """Siblings, each with how many rows it takes. Made when somebody looks at them, then kept up."""

    __slots__ = ("_ends", "_orders", "_rows", "keys")

    def __init__(self, orders: list[Order], rows: list[int]) -> None:
        """``orders``, sorted, and as many ``rows``."""
        self._orders, self._rows = orders, rows
        self.keys = [order[-1] for order in orders]
        self._ends: list[int] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def orders(self) -> Sequence[Order]:
        """One for each of ``keys``."""
        return self._orders

    def find(self, row: int) -> tuple[int, int]:
        """Who is in ``row``, counted from the first sibling's: its place, and which of its rows that is.

        Raises IndexError where they have fewer rows.
        """
        ends = self._sums()
        place = bisect_right(ends, row)
        if place == len(ends):
            raise IndexError(row)
        return place, row - (ends[place - 1] if place else 0)

    def before(self, order: Order) -> int:
        """How many rows stand before the sibling of this order."""
        place = bisect_left(self._orders, order)
        return self._sums()[place - 1] if place else 0

    def put(self, order: Order, rows: int) -> None:
        """One more."""
        place = bisect_left(self._orders, order)
        self._orders.insert(place, order)
        self._rows.insert(place, rows)
        self.keys.insert(place, order[-1])
        self._ends = None

    def take(self, order: Order) -> None:
        """One less."""
        place = bisect_left(self._orders, order)
        del self._orders[place], self._rows[place], self.keys[place]
        self._ends = None

    def resize(self, order: Order, rows: int) -> bool:
        """The sibling of this order takes so many rows now; False where it did before."""
        place = bisect_left(self._orders, order)
        if self._rows[place] == rows:
            return False
        self._rows[place] = rows
        self._ends = None
        return True

    def _sums(self) -> list[int]:
        if self._ends is None:
            self._ends = list(accumulate(self._rows))
        return self._ends


_LEVELS = 12


class Step(NamedTuple):
    """One level of a row's place: which of its siblings it, or the row above it, is."""

    kids: Kids
    place: int
    fork: bool
    """A line leads to it; else it stands right below its parent."""


class Guide:
    """Where a row is, from the root down, and what is drawn before it. Begins at the root."""

    def __init__(self, chains: bool) -> None:
        """``chains``: an only child is no fork, unless it hangs under the root."""
        self._chains = chains
        self._path: list[Step] = []
        self._last: list[bool] = []
        """For each fork, whether it is the last of its siblings."""

    def down(self, kids: Kids, place: int) -> None:
        """To the row at ``place`` of those under this one."""
        step = Step(kids, place, not self._chains or len(kids) > 1 or not self._path)
        self._path.append(step)
        if step.fork:
            self._last.append(place + 1 == len(kids))

    def on(self) -> Step | None:
        """To the next row that is not under this one; None, and to the root, where there is none."""
        while self._path:
            step = self._path.pop()
            if step.fork:
                self._last.pop()
            if step.place + 1 < len(step.kids):
                self.down(step.kids, step.place + 1)
                return self._path[-1]
        return None

    def lines(self) -> str:
        """Of a very deep row only the last levels, after its depth."""
        if not self._path:
            return ""
        last = self._last[-_LEVELS:]
        levels = ["  " if end else "│ " for end in last]
        if self._path[-1].fork:
            levels[-1] = "└─" if last[-1] else "├─"
        deeper = f"{len(self._last)}⋯ " if len(self._last) > _LEVELS else ""
        return deeper + "".join(levels)
