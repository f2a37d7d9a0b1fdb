"""A table of Markdown, in a box of lines."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from chatkv.tui.chat.rows import Block, Laid, Row

LINE = ".table--line"
_EDGES = {"top": ("┌", "┬", "┐"), "between": ("├", "┼", "┤"), "bottom": ("└", "┴", "┘")}


class Table(Block):
    """As wide as its text, where there is room; else its widest columns are wrapped."""

    below = 1

    def __init__(self, rows: Sequence[Sequence[Content]], ends: Sequence[str]) -> None:
        """``rows``: the first is the header; ``ends``: left, center or right, for each column."""
        self._columns = max(map(len, rows), default=0)
        self._rows = [[*row, *[Content("")] * (self._columns - len(row))] for row in rows]
        self._ends = [*ends, *["left"] * (self._columns - len(ends))]

    def lay(self, width: int) -> Laid:
        """See the base class. What is seen is what is copied: each row is a line."""
        widths = self._widths(width)
        lines = [_edge("top", widths)]
        for number, row in enumerate(self._rows):
            if number:
                lines.append(_edge("between", widths))
            lines += self._row(row, widths)
        lines.append(_edge("bottom", widths))
        return Laid([Row(line, number) for number, line in enumerate(lines)], [line.plain for line in lines])

    def _widths(self, width: int) -> list[int]:
        """Cells for the text of each column: two blanks and a line more are drawn."""
        widths = [
            max(1, *(line.cell_length for row in self._rows for line in row[column].split()))
            for column in range(self._columns)
        ]
        room = width - 3 * self._columns - 1
        while sum(widths) > room and max(widths) > 1:
            widths[widths.index(max(widths))] -= 1
        return widths

    def _row(self, cells: Sequence[Content], widths: Sequence[int]) -> list[Content]:
        parts = [cell.wrap(width) for cell, width in zip(cells, widths, strict=True)]
        line = Content.assemble(("│", LINE))
        out = []
        for at in range(max(map(len, parts), default=0)):
            text = line
            for column, part in enumerate(parts):
                cell = part[at] if at < len(part) else Content("")
                free = widths[column] - cell.cell_length
                left = {"right": free, "center": free // 2}.get(self._ends[column], 0)
                text = text + " " * (1 + left) + cell + " " * (free - left + 1) + line
            out.append(text)
        return out


def _edge(which: str, widths: Sequence[int]) -> Content:
    first, crossing, last = _EDGES[which]
    return Content.assemble((first + crossing.join("─" * (width + 2) for width in widths) + last, LINE))
