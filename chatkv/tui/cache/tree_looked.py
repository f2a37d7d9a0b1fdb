"""The rows of a tree that somebody has looked at, in their order and with their sizes."""

from __future__ import annotations

from collections.abc import Sequence

from chatkv.tui.cache.tree_kids import Kids, Order


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
