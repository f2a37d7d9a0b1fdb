"""Headings, lists, quotes and rules of Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content

from chatkv.tui.chat.rows import Block, Classes, Laid, Row, Text, behind, blank, gap, stacked, wrapped


class Heading(Text):
    """Of the first level in the middle."""

    def __init__(self, text: Content, level: int) -> None:
        super().__init__(text, (f"heading--{level}",), above=2 if level < 3 else 1, below=1)
        self._centred = level == 1

    def lay(self, width: int) -> Laid:
        """See the base class."""
        laid = super().lay(width)
        if not self._centred:
            return laid
        rows = [
            row._replace(before=((" " * ((width - row.text.cell_length) // 2), self.under),))
            for row in laid.rows
        ]
        return Laid(rows, laid.lines)


_LEAST = 16
"""Cells that text keeps: where lists and quotes in one another leave less, they are indented no further."""


class List(Block):
    """Items with a bullet or a number each, without blank rows between them."""

    def __init__(self, items: Sequence[tuple[str, Sequence[Block]]], below: int) -> None:
        self._items = items
        self.below = below
        self.inner = [block for _, blocks in items for block in blocks]

    def lay(self, width: int) -> Laid:
        """See the base class."""
        rows: list[Row] = []
        lines: list[str] = []
        for at, (mark, blocks) in enumerate(self._items, 1):
            laid = _item(mark, blocks, width)
            rows += laid.shifted(len(lines))
            lines += laid.lines
            if blocks and at < len(self._items):
                rows += [blank(lines)] * blocks[-1].below
        return Laid(rows, lines)


def _item(mark: str, blocks: Sequence[Block], width: int) -> Laid:
    """All of it behind its mark; where that leaves too little room, its first text alone."""
    room = width - cell_len(mark)
    beside = len(blocks) if room >= _LEAST else int(bool(blocks) and not isinstance(blocks[0], List | Quote))
    room = max(1, room)
    laid = stacked(blocks[:beside], room) if beside else wrapped(Content(""), room)
    laid = behind(laid, mark, ("list--mark",))
    if beside == len(blocks):
        return laid
    between = [blank(laid.lines)] * (gap(blocks[beside - 1], blocks[beside]) if beside else 0)
    rest = stacked(blocks[beside:], width)
    return Laid([*laid.rows, *between, *rest.shifted(len(laid.lines))], [*laid.lines, *rest.lines])


class Quote(Block):
    """With a bar at its left side."""

    above = below = 1
    _UNDER: Classes = ("quote",)

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.inner = blocks

    def lay(self, width: int) -> Laid:
        """See the base class."""
        if width - 2 < _LEAST and any(isinstance(block, Quote | List) for block in self.inner):
            return stacked(self.inner, width)
        laid = stacked(self.inner, max(1, width - 2))
        rows = [
            row._replace(
                before=(("▌", ("quote", "quote--bar")), (" ", self._UNDER), *_under(row.before, self._UNDER)),
                under=self._UNDER + row.under,
                after=_under(row.after, self._UNDER),
            )
            for row in laid.rows
        ]
        return Laid(rows, laid.lines)


def _under(pieces: Sequence[tuple[str, Classes]], classes: Classes) -> tuple[tuple[str, Classes], ...]:
    return tuple((text, classes + own) for text, own in pieces)


class Rule(Block):
    """A line from left to right."""

    below = 1

    def lay(self, width: int) -> Laid:
        """See the base class."""
        return Laid([Row(Content(""), 0, before=(("─" * width, ("rule",)),))], [""])
