"""The last row of each session whose request is over, for as long as its blocks are nobody else's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from chatkv.insight.nodes import Row
from chatkv.kvcache.events import Int32Array

SESSIONS_KEPT = 1_000
"""The latest of them."""


class ClosedRows:
    """One row a session at most; a kept row is never changed, so copies share it."""

    def __init__(self, num_blocks: int) -> None:
        self._rows: dict[str, tuple[int, Row]] = {}
        """Session → when it was closed, and the row as it was before its own blocks were freed."""
        self._taken: npt.NDArray[np.int64] = np.zeros(num_blocks, np.int64)
        """When each block was last allocated."""

    def take(self, blocks: Int32Array, seq: int) -> None:
        """They hold something new from now on."""
        self._taken[blocks] = seq

    def keep(self, row: Row, seq: int) -> None:
        """The row is over; said twice, what it was the first time counts."""
        kept = self._rows.get(row.session)
        if row.blocks and (kept is None or kept[1].request != row.request):
            self._rows.pop(row.session, None)
            self._rows[row.session] = seq, replace(row)
            if len(self._rows) > SESSIONS_KEPT:
                del self._rows[next(iter(self._rows))]

    def drop(self, session: str) -> None:
        """It asked again."""
        self._rows.pop(session, None)

    def clear(self) -> None:
        """Nothing is cached any more."""
        self._rows.clear()

    def of(self, session: str) -> Row | None:
        """The row, up to the first block that was taken for something else since; None where none is left."""
        seq, row = self._rows.get(session, (0, None))
        if row is None:
            return None
        others = np.flatnonzero(self._taken[row.blocks] > seq)
        if not len(others):
            return row
        left = row.blocks[: int(others[0])]
        written = min(row.written, len(left) * row.block_size)
        return replace(row, blocks=left, written=written) if left else None

    def copy(self) -> ClosedRows:
        """An independent copy."""
        twin = ClosedRows(0)
        twin._rows, twin._taken = self._rows.copy(), self._taken.copy()
        return twin
