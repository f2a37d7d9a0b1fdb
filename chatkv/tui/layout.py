"""Which arrangement a terminal of this size gets."""

from __future__ import annotations

from enum import Enum

SMALLEST = (40, 12)


class Arrangement(Enum):
    """The value is the class the screen gets."""

    TINY = "-tiny"
    """Too small to be of use: one plain line says so."""
    ONE = "-one"
    """One pane with tabs."""
    TWO = "-two"
    """Chat beside tree, blocks and metrics."""
    THREE = "-three"
    """Sessions, chat, and every cache pane."""


def arrangement(width: int, height: int) -> Arrangement:
    """For a terminal of ``width`` by ``height`` cells."""
    if width < SMALLEST[0] or height < SMALLEST[1]:
        return Arrangement.TINY
    if width < 100:
        return Arrangement.ONE
    return Arrangement.THREE if width >= 180 and height >= 40 else Arrangement.TWO


PANES = {
    "chat": "Chat",
    "tree": "Tree",
    "blocks": "Blocks",
    "table": "Table",
    "node": "Node",
    "metrics": "Metrics",
    "queue": "Queue",
    "events": "Events",
}
"""Pane id → its tab, in the order of f6."""
