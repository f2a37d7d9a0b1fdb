"""What the glyphs mean, and where in time the picture stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len

from chatkv.tui.cache.cells import clip
from chatkv.tui.cache.states import LOOK_CLASSES, Look, look_css
from chatkv.tui.row_widget import Piece, RowWidget


class Legend(RowWidget):
    """``= reused  + new  x evicted …    seq 1842 ▶ LIVE``; entries that don't fit are left out."""

    DEFAULT_CSS = f"""
    Legend {{
        height: 1;
        padding: 0 1;
    }}
    {look_css("Legend")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = LOOK_CLASSES

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._clock = "seq 0 ▶ LIVE"

    def show(self, seq: int, latest: int | None = None) -> None:
        """The picture is of ``seq``; with ``latest`` it is a past one, and the log has reached ``latest``."""
        clock = f"seq {seq} ▶ LIVE" if latest is None else f"seq {seq}/{latest} ‖ PAUSED"
        if clock != self._clock:
            self._clock = clock
            self.changed()

    def line(self, width: int) -> list[tuple[str, Look | None]]:
        """The pieces shown in ``width`` cells, each with the state whose colour it takes."""
        clock = clip(self._clock, width)
        room = width - cell_len(clock)
        pieces: list[tuple[str, Look | None]] = []
        for look in Look:
            text = f"{look.glyph} {look.word}"
            if len(text) + 2 > room:
                break
            pieces += [(text, look), ("  ", None)]
            room -= len(text) + 2
        return [*pieces, (" " * room, None), (clock, None)]

    def rows(self, width: int) -> Sequence[Sequence[Piece]]:
        """See the base class."""
        return [[(text, look.css if look else "") for text, look in self.line(width)]]
