"""A block of code: highlighted, and moved sideways where it is wider than its room."""

from __future__ import annotations

from rich.cells import get_character_cell_size
from textual.content import Content
from textual.highlight import ANSIDarkHighlightTheme, ANSILightHighlightTheme, HighlightTheme, highlight

from chatkv.tui.chat.rows import Block, Laid, Row

_UNDER = ("fence",)


class Fence(Block):
    """``language`` as the fence names it; empty: it is guessed."""

    below = 1

    def __init__(self, code: str, language: str, dark: bool, ansi: bool) -> None:
        theme = (ANSIDarkHighlightTheme if dark else ANSILightHighlightTheme) if ansi else HighlightTheme
        text = highlight(code, language=language or None, theme=theme)
        self._lines = [line.expand_tabs(8) for line in text.split(allow_blank=True)] or [Content("")]
        self._widest = max(line.cell_length for line in self._lines)
        self._width = self._left = 0
        """Cells of its room, and of what is out of sight at the left of it."""

    def lay(self, width: int) -> Laid:
        """See the base class."""
        self._width = width - 2
        self.scroll(0)
        rows = []
        for number, line in enumerate(self._lines):
            x = _at(line.plain, self._left) if self._left else 0
            rows.append(Row(line[x:] if x else line, number, x, ((" ", _UNDER),), _UNDER, right=1))
        return Laid(rows, [line.plain for line in self._lines])

    def scroll(self, cells: int) -> bool:
        """See the base class."""
        before = self._left
        self._left = max(0, min(before + cells, self._widest - self._width))
        return self._left != before

    def stay(self, before: Block) -> None:
        """Moved as far as ``before``, which it takes the place of, with more code."""
        if isinstance(before, Fence):
            self._left = before._left


def _at(text: str, cells: int) -> int:
    """The first character that does not begin within so many cells."""
    for at, character in enumerate(text):
        if cells <= 0:
            return at
        cells -= get_character_cell_size(character)
    return len(text)
