"""How many blocks a cell of the pool's map stands for, and what such a cell shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chatkv.insight.nodes import BlockState

_STATES = len(BlockState)

States = npt.NDArray[np.uint8]
Marks = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Scale:
    """``fit``: blocks a cell at which the whole pool is in the pane; ``chosen`` by a person, None: that."""

    fit: int = 1
    chosen: int | None = None

    @property
    def per_cell(self) -> int:
        """Blocks a cell."""
        return self.fit if self.chosen is None else min(self.chosen, self.fit)

    @property
    def levels(self) -> list[int]:
        """1, 2, 4 … and the one that fits."""
        return [1 << n for n in range(self.fit.bit_length()) if 1 << n < self.fit] + [self.fit]

    def nearer(self, by: int) -> int | None:
        """What to choose to be ``by`` levels nearer, at most 1 a cell; or further, at most the whole pool."""
        levels = self.levels
        at = max(n for n, level in enumerate(levels) if level <= self.per_cell)
        wanted = levels[max(0, min(at - by, len(levels) - 1))]
        return None if wanted == self.fit else wanted


class Cells(NamedTuple):
    """Of each cell its state (uint8 ``[cells]``), is one of its blocks marked, is most of it free (bool)."""

    states: States
    mine: Marks
    sparse: Marks


def gather(states: States, mine: Marks, per_cell: int) -> Cells:
    """``per_cell`` blocks a cell: the state most of those are in that are not free, so that nothing is lost.

    ``states`` uint8 ``[n]``, ``mine`` bool ``[n]``; there are ``ceil(n / per_cell)`` cells.
    """
    if per_cell == 1:
        return Cells(states, mine, np.zeros(len(states), np.bool_))
    cells = -(-len(states) // per_cell)
    cell_of = np.arange(len(states)) // per_cell
    counts = np.bincount(cell_of * _STATES + states, minlength=cells * _STATES).reshape(cells, _STATES)
    free = counts[:, BlockState.FREE]
    taken = np.delete(counts, BlockState.FREE, axis=1)
    some = taken.sum(axis=1)
    most = np.where(some > 0, 1 + taken.argmax(axis=1), BlockState.FREE).astype(np.uint8)
    return Cells(most, np.bincount(cell_of, weights=mine, minlength=cells) > 0, (some > 0) & (some < free))
