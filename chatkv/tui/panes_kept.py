"""How a person has set up the panes of each arrangement: hidden, in front, sizes, zoomed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from chatkv.tui.layout import HIDDEN, PANES, Arrangement
from chatkv.tui.remembered import Remembered


@dataclass
class Kept:
    """Of one arrangement."""

    hidden: set[str]
    raised: list[str] = field(default_factory=list)
    """The panes that were brought to the front of their places, the last one first."""
    zoomed: str = ""
    weights: dict[str, dict[str, float]] = field(default_factory=dict)
    """Split → part → share of its cells."""

    def front(self, panes: Sequence[str]) -> str:
        """Which of those that share a place is seen."""
        return next((pane for pane in self.raised if pane in panes), panes[0])

    def bring_up(self, pane: str) -> None:
        """In front of all others from now on."""
        self.raised = [pane, *(other for other in self.raised if other != pane)]

    def set_lengths(self, split: str, lengths: dict[str, int]) -> None:
        """A line was moved: these are the cells of the parts on the screen; others keep their share."""
        before = self.weights.get(split, {})
        total = sum(lengths.values())
        others = {part: share for part, share in before.items() if part not in lengths}
        scale = sum(before.get(part, 0.0) for part in lengths) if others else 1.0
        fresh = {part: cells / total * (scale or 1.0) for part, cells in lengths.items()}
        self.weights[split] = others | fresh


def load(remembered: Remembered, arrangement: Arrangement) -> Kept:
    """As it was left; a name or a number that can't be right is passed over."""
    at = _key(arrangement)
    hidden = remembered.get(f"{at}.hidden", sorted(HIDDEN.get(arrangement, ())))
    kept = Kept(
        hidden={pane for pane in hidden if pane in PANES},
        raised=[pane for pane in dict.fromkeys(remembered.get(f"{at}.front", [""])) if pane in PANES],
        zoomed=remembered.get(f"{at}.zoomed", ""),
    )
    if len(kept.hidden) == len(PANES):
        kept.hidden = set(HIDDEN.get(arrangement, ()))
    if kept.zoomed not in PANES or kept.zoomed in kept.hidden:
        kept.zoomed = ""
    for name, share in remembered.get(f"{at}.sizes", {"": 0.0}).items():
        split, _, part = name.partition("/")
        if part and math.isfinite(share) and 0 < share <= 1:
            kept.weights.setdefault(split, {})[part] = share
    return kept


def save(remembered: Remembered, arrangement: Arrangement, kept: Kept) -> None:
    """For the next time."""
    at = _key(arrangement)
    remembered.set(f"{at}.hidden", sorted(kept.hidden))
    remembered.set(f"{at}.front", list(kept.raised))
    remembered.set(f"{at}.zoomed", kept.zoomed)
    sizes = {
        f"{split}/{part}": round(share, 4)
        for split, shares in sorted(kept.weights.items())
        for part, share in sorted(shares.items())
    }
    remembered.set(f"{at}.sizes", sizes)


def _key(arrangement: Arrangement) -> str:
    return f"panes.{arrangement.value.lstrip('-')}"
