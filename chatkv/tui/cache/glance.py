"""The cache in one line, for where the conversation fills the screen."""

from __future__ import annotations

import numpy as np
from textual.content import Content

from chatkv.insight.mirror import Mirror
from chatkv.insight.nodes import BlockState
from chatkv.insight.visible import counted
from chatkv.tui.cache.states import BLOCK_LOOKS

_ORDER = (
    BlockState.REUSED,
    BlockState.NEW,
    BlockState.LOCKED,
    BlockState.IDLE,
    BlockState.EVICTED,
    BlockState.FREE,
)
"""From what the session at hand has to what anyone may take."""
_LEAST, _MOST = 8, 32
"""Cells of the bar."""


def glance(mirror: Mirror, width: int) -> Content:
    """``11 nodes · 19/64 blk ===+++····......``, the pool by states; less of it in fewer cells.

    What there is too little of for a cell has one nevertheless. Empty before there is a pool.
    """
    if not mirror.num_blocks:
        return Content("")
    used = f"{mirror.num_blocks - mirror.free}/{mirror.num_blocks} blk"
    words = f"{counted(len(mirror.nodes) - 1, 'node')} · {used} "
    if len(words) + _LEAST > width:
        words = f"{used} "
    room = min(_MOST, width - len(words))
    if room < _LEAST:
        return Content(used if len(used) <= width else "")
    counts = np.bincount(mirror.block_states(), minlength=len(BlockState))
    parts = [(words, "")]
    for state, cells in zip(_ORDER, shares([int(counts[state]) for state in _ORDER], room), strict=True):
        look = BLOCK_LOOKS[state]
        parts.append((look.glyph * cells, look.variable))
    return Content.assemble(*parts)


def shares(counts: list[int], cells: int) -> list[int]:
    """``cells`` shared out by ``counts``, one at least for each that is not 0; the largest has the rest."""
    total = sum(counts)
    if not total:
        return [0] * len(counts)
    shared = [max(1, cells * count // total) if count else 0 for count in counts]
    shared[counts.index(max(counts))] += cells - sum(shared)
    return shared
