"""One line of labels of which one is current: the sessions, or the panes of a narrow screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from textual.events import Click
from textual.geometry import Size
from textual.message import Message

from chatkv.tui.row_widget import Piece, RowWidget


class Chip(NamedTuple):
    """``text`` is one printable line; ``key`` says which one it is."""

    key: str
    text: str
    current: bool = False


def row_width(chips: Sequence[Chip]) -> int:
    """Cells that all of them take: a blank on either side of each, and one between."""
    return sum(cell_len(chip.text) + 3 for chip in chips) - 1


class ChipRow(RowWidget):
    """A click picks a chip. Where not all fit, those around the current one are shown; a click on the mark
    that there are more picks the next of those.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"chips--current", "chips--other", "chips--more"}

    DEFAULT_CSS = """
    ChipRow { height: 1; width: 1fr; }
    ChipRow > .chips--current { background: $primary; color: $background; text-style: bold; }
    ChipRow:ansi > .chips--current { background: $background; color: $foreground; text-style: bold reverse; }
    ChipRow > .chips--other { color: $foreground; background: $panel; }
    ChipRow > .chips--more { color: $text-muted; }
    """

    class Picked(Message):
        """The person clicked the chip ``key`` of ``row``."""

        def __init__(self, row: ChipRow, key: str) -> None:
            self.row = row
            self.key = key
            super().__init__()

        @property
        def control(self) -> ChipRow:
            """The row."""
            return self.row

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._chips: tuple[Chip, ...] = ()
        self._spans: list[tuple[int, int, str]] = []

    def show(self, chips: Sequence[Chip]) -> None:
        """Show these from now on."""
        if (fresh := tuple(chips)) != self._chips:
            self._chips = fresh
            self.changed()

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Room for all."""
        return row_width(self._chips)

    def window(self, width: int) -> tuple[int, int]:
        """``(first, end)`` of the chips that fit ``width`` cells around the current one."""
        sizes = [cell_len(chip.text) + 3 for chip in self._chips]
        at = next((i for i, chip in enumerate(self._chips) if chip.current), 0)
        if row_width(self._chips) <= width:
            return 0, len(sizes)
        first, end, used = at, at + 1, sizes[at] + 3
        while True:
            if first > 0 and used + sizes[first - 1] <= width:
                first -= 1
                used += sizes[first]
            elif end < len(sizes) and used + sizes[end] <= width:
                used += sizes[end]
                end += 1
            else:
                return first, end

    def rows(self, width: int) -> Sequence[Sequence[Piece]]:
        """See the base class."""
        first, end = self.window(width)
        pieces: list[Piece] = []
        self._spans.clear()
        x = 0
        if first > 0:
            pieces.append(("‹ ", "chips--more"))
            self._spans.append((0, 2, self._chips[first - 1].key))
            x += 2
        for chip in self._chips[first:end]:
            pieces += [(f" {chip.text} ", "chips--current" if chip.current else "chips--other"), (" ", "")]
            width = cell_len(chip.text) + 2
            self._spans.append((x, x + width, chip.key))
            x += width + 1
        if end < len(self._chips):
            pieces.append(("›", "chips--more"))
            self._spans.append((x, x + 1, self._chips[end].key))
        return [pieces]

    def on_click(self, event: Click) -> None:
        """Pick what is under the mouse."""
        event.stop()
        for start, end, key in self._spans:
            if start <= event.x < end:
                self.post_message(self.Picked(self, key))
