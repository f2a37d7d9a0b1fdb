"""A table of Markdown, in a box of lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from textual.content import Content, Span

from chatkv.tui.chat.rows import Block, Laid
from chatkv.tui.chat.wide import Wide

LINE = ".table--line"
_EMPTY = Content("")
_EDGES = {"top": ("┌", "┬", "┐"), "between": ("├", "┼", "┤"), "bottom": ("└", "┴", "┘")}
_LEAST = 6
"""Cells that a column of more text has at least: narrower ones could not be read."""


class Table(Wide):
    """As wide as its text, where there is room; else its widest columns are wrapped, then it is moved."""

    below = 1

    def __init__(self, rows: Sequence[Sequence[Content]], ends: Sequence[str]) -> None:
        """``rows``: the first is the header; ``ends``: left, center or right, for each column."""
        super().__init__()
        self._columns = max(map(len, rows), default=0)
        self._rows = [[*row, *[Content("")] * (self._columns - len(row))] for row in rows]
        self._ends = [*ends, *["left"] * (self._columns - len(ends))]
        self._natural = [
            max(1, *(line.cell_length for row in self._rows for line in row[column].split()))
            for column in range(self._columns)
        ]
        self._drawn: tuple[list[int], list[Content]] = ([], [])
        """Its lines, and the widths of columns they were made for."""
        self._known: tuple[list[int], dict[tuple[object, ...], list[Content]]] = ([], {})
        """Widths of columns, and the lines that a row has with them."""

    def lay(self, width: int) -> Laid:
        """See the base class. What is seen is what is copied: each row is a line."""
        widths = self._widths(width)
        if widths != self._drawn[0]:
            self._drawn = widths, self._made(widths)
        lines = self._drawn[1]
        if lines[0].cell_length > width:
            return self.lay_lines(lines, width)
        return self.lay_all(lines)

    def _made(self, widths: list[int]) -> list[Content]:
        between = _edge("between", widths)
        known, self._known = self._known if self._known[0] == widths else (widths, {}), (widths, {})
        lines = [_edge("top", widths)]
        for number, row in enumerate(self._rows):
            if number:
                lines.append(between)
            key = tuple((cell.plain, *cell.spans) for cell in row)
            self._known[1][key] = known[1].get(key) or self._row(row, widths)
            lines += self._known[1][key]
        return [*lines, _edge("bottom", widths)]

    def stay(self, before: Block) -> None:
        """See the base class. Rows that are as they were are not laid out again."""
        super().stay(before)
        if isinstance(before, Table):
            self._known = before._known

    def _widths(self, width: int) -> list[int]:
        """Cells for the text of each column: two blanks and a line more are drawn."""
        widths, room = self._natural, width - 3 * self._columns - 1
        if sum(widths) <= room:
            return widths
        # All are cut at one width; what is left over goes to the last ones.
        fitting = bisect_right(range(max(widths) + 1), room, key=lambda at: _cut(widths, at)) - 1
        most = max(fitting, _LEAST)
        left = room - _cut(widths, most)
        out = [min(natural, most) for natural in widths]
        for column in reversed(range(self._columns)):
            if left > 0 and widths[column] > most:
                out[column] += 1
                left -= 1
        return out

    def _row(self, cells: Sequence[Content], widths: Sequence[int]) -> list[Content]:
        parts = [cell.wrap(width) for cell, width in zip(cells, widths, strict=True)]
        out = []
        for at in range(max(map(len, parts), default=0)):
            # Put together once: adding one to the other copies the row for each of its columns.
            texts, spans, length = ["│"], [Span(0, 1, LINE)], 1
            for column, part in enumerate(parts):
                cell = part[at] if at < len(part) else _EMPTY
                free = widths[column] - cell.cell_length
                left = {"right": free, "center": free // 2}.get(self._ends[column], 0)
                before = length + 1 + left
                spans += [Span(before + s.start, before + s.end, s.style) for s in cell.spans]
                texts.append(f"{' ' * (1 + left)}{cell.plain}{' ' * (free - left + 1)}│")
                length += len(texts[-1])
                spans.append(Span(length - 1, length, LINE))
            out.append(Content("".join(texts), spans))
        return out


def _cut(widths: Sequence[int], most: int) -> int:
    return sum(min(width, most) for width in widths)


def _edge(which: str, widths: Sequence[int]) -> Content:
    first, crossing, last = _EDGES[which]
    return Content.assemble((first + crossing.join("─" * (width + 2) for width in widths) + last, LINE))
