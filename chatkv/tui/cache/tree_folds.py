"""What a person has folded, and how many rows that leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.tree_keys import upwards


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
