"""Lines that are not wrapped: what is out of sight is marked, and moved into sight sideways."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from rich.cells import split_graphemes
from textual.content import Content

from chatkv.tui.chat.rows import Block, Classes, Laid, Row

BEFORE, BEHIND = "‹", "›"
_MARK = "wide--mark"


class Wide(Block):
    """Its lines lie between two columns for the marks."""

    def __init__(self, under: Classes = ()) -> None:
        self._under = under
        self._widest = self._width = self._left = 0
        """Cells of its longest line, of its room, and of what is out of sight at the left of it."""
        self._lines: Sequence[Content] = ()
        self._places: dict[int, _Places] = {}
        """Of those of its lines that needed it."""

    def lay_lines(self, lines: Sequence[Content], width: int) -> Laid:
        """What is in sight of ``lines``, in ``width`` cells with the marks."""
        if lines is not self._lines:
            self._lines = lines
            self._places.clear()
            self._widest = max((line.cell_length for line in lines), default=0)
        self._width = max(1, width - 2)
        self.scroll(0)
        return Laid([self._seen(number) for number in range(len(lines))], [line.plain for line in lines])

    def lay_all(self, lines: Sequence[Content]) -> Laid:
        """All of ``lines``, which there is room for."""
        self._widest = self._width = self._left = 0
        self._lines = ()
        return Laid([Row(line, number) for number, line in enumerate(lines)], [line.plain for line in lines])

    def _seen(self, number: int) -> Row:
        line = self._lines[number]
        cells = line.cell_length - self._left
        before, behind = BEFORE if self._left and len(line) else " ", BEHIND if cells > self._width else " "
        pad, x = 0, 0
        if self._left or behind == BEHIND:
            places = self._places.get(number)
            if places is None:
                places = self._places[number] = _Places(line.plain)
            x, pad = places.behind(self._left)
            end = places.before(self._left + self._width) if behind == BEHIND else len(line)
            line = line[x : max(x, end)]
        return Row(
            line,
            number,
            x,
            before=((before + " " * pad, self._marked(before)),),
            under=self._under,
            after=((behind, self._marked(behind)),),
        )

    def _marked(self, mark: str) -> Classes:
        return self._under if mark == " " else (*self._under, _MARK)

    def scroll(self, cells: int) -> bool:
        """See the base class."""
        before = self._left
        self._left = max(0, min(before + cells, self._widest - self._width))
        return self._left != before

    @property
    def too_wide(self) -> bool:
        """See the base class."""
        return self._widest > self._width

    def stay(self, before: Block) -> None:
        """See the base class. It is moved as far."""
        if isinstance(before, Wide):
            self._left = before._left


class _Places:
    """In which cell each character of a line begins."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._simple = text.isascii()
        self._starts: list[int] = []
        """Of each character that is not drawn onto the one before it: its index …"""
        self._cells: list[int] = [0]
        """… and the cell in which it begins; at the end, where the line ends."""
        if not self._simple:
            for start, _, cells in split_graphemes(text)[0]:
                if cells:
                    self._starts.append(start)
                    self._cells.append(self._cells[-1] + cells)
        self._starts.append(self._length)

    def behind(self, cells: int) -> tuple[int, int]:
        """The first character that begins there or behind, and how many cells behind."""
        if self._simple or cells <= 0:
            return min(cells, self._length), 0
        at = min(bisect_left(self._cells, cells), len(self._cells) - 1)
        return self._starts[at], max(0, self._cells[at] - cells)

    def before(self, cells: int) -> int:
        """The first character that does not end before that cell."""
        if self._simple:
            return min(cells, self._length)
        return self._starts[bisect_right(self._cells, cells) - 1]
