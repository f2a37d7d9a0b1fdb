"""The lines that lead to a row of the tree."""

from __future__ import annotations

from typing import NamedTuple

from chatkv.tui.cache.tree_kids import Kids

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
