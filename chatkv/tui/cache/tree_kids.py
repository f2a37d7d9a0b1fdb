"""The rows under one row of the tree, in their order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

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
