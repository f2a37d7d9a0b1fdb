"""How many blocks a cell of the pool's map stands for, and what such a cell shows."""

from __future__ import annotations

from dataclasses import dataclass

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


def gather(states: States, mine: Marks, per_cell: int) -> tuple[States, Marks]:
    """Of each cell the state that most of its blocks are in, and whether one of them is marked.

    ``states`` uint8 ``[n]``, ``mine`` bool ``[n]``; the results ``[ceil(n / per_cell)]``.
    """
    if per_cell == 1:
        return states, mine
    cells = -(-len(states) // per_cell)
    cell_of = np.arange(len(states)) // per_cell
    counts = np.bincount(cell_of * _STATES + states, minlength=cells * _STATES)
    by_cell = counts.reshape(cells, _STATES)
    # On a tie the occupied state wins over free, which is 0 and would otherwise come first.
    most = (_STATES - 1 - by_cell[:, ::-1].argmax(axis=1)).astype(np.uint8)
    return most, np.bincount(cell_of, weights=mine, minlength=cells) > 0
