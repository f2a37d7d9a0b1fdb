"""Where in the tree's rows the ghosts of evicted nodes stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from chatkv.insight.nodes import Ghost
from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.tree_keys import ghost_key, upwards


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
