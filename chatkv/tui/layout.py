"""Which arrangement a terminal of this size gets, and where each pane has its place in it."""

from __future__ import annotations

from enum import Enum

from textual.geometry import Size

from chatkv.tui.split import Part, Split, Stack

SMALLEST = (40, 12)


class Arrangement(Enum):
    """The value is the class the screen gets."""

    TINY = "-tiny"
    """Too small to be of use: ``too_small.py`` lies over it."""
    ONE = "-one"
    """One pane with tabs."""
    TWO = "-two"
    """Chat beside the cache: the tree, and two places that several panes share."""
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
    "sessions": "Sessions",
    "chat": "Chat",
    "tree": "Tree",
    "table": "Table",
    "blocks": "Blocks",
    "node": "Node",
    "metrics": "Metrics",
    "queue": "Queue",
    "events": "Events",
}
"""Pane id → what its tab and the commands call it, in the order of f6 where one pane fills the screen."""

CACHE_PANES = tuple(pane for pane in PANES if pane not in ("sessions", "chat"))

HIDDEN: dict[Arrangement, frozenset[str]] = {
    Arrangement.ONE: frozenset({"sessions"}),
    Arrangement.TWO: frozenset({"sessions"}),
    Arrangement.THREE: frozenset(),
}
"""What a person who never hid anything does not see; the line of sessions at the top stands for it."""


def _columns(chat: int, cache: int) -> Split:
    return Split(
        "body",
        False,
        (
            Stack("sessions", ("sessions",), Size(20, 3), want=28),
            Stack("chat", ("chat",), Size(30, 3), grow=chat),
            Stack("cache", ("cache",), Size(36, 3), grow=cache),
        ),
    )


BODY = {arrangement: _columns(48, 52) for arrangement in Arrangement}
"""The columns. The panes of the cache are one of them."""
BODY[Arrangement.THREE] = _columns(40, 60)

_TREE = Stack("tree", ("tree",), Size(24, 5), want=8, grow=1)
_PAGING = ("blocks", "table", "node")
_FIGURES = ("metrics", "queue", "events")

_COLUMN: tuple[Part, ...] = (
    Split(
        "column",
        True,
        (
            _TREE,
            Stack("middle", _PAGING, Size(24, 6), want=9),
            Stack("lower", _FIGURES, Size(24, 8), want=8),
        ),
    ),
    Split("column", True, (_TREE, Stack("middle", (*_PAGING, *_FIGURES), Size(24, 6), want=9))),
    Stack("middle", ("tree", *_PAGING, *_FIGURES)),
)
"""Under a height that has room for three places, two, and under that one."""


def _row(name: str, column: str, upper: Stack, lower: Stack, beside: Stack, want: int) -> Split:
    """Two panes over each other, and a third one beside them."""
    return Split(name, False, (Split(column, True, (upper, lower), grow=1), beside), want=want)


_ALL = Split(
    "column",
    True,
    (
        _TREE,
        _row(
            "middle",
            "paging",
            Stack("table", ("table",), Size(24, 5), want=9),
            Stack("blocks", ("blocks",), Size(24, 4), grow=1),
            Stack("node", ("node",), Size(20, 4), grow=1),
            want=16,
        ),
        _row(
            "lower",
            "figures",
            Stack("metrics", ("metrics",), Size(24, 8), want=8),
            Stack("queue", ("queue",), Size(24, 3), grow=1),
            Stack("events", ("events",), Size(20, 4), grow=1),
            want=13,
        ),
    ),
)

COLUMN: dict[Arrangement, tuple[Part, ...]] = {
    Arrangement.TWO: _COLUMN,
    Arrangement.THREE: (_ALL, *_COLUMN),
}
"""The panes of the cache; the first that there is room for."""
