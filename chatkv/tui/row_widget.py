"""Rows of words, each in the colour of a component class; those that have not changed are not drawn anew."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.strip import Strip

from chatkv.tui.kept_styles import KeptStyles

Piece = tuple[str, str]
"""Words of one line without controls, and their component class; empty: the widget's own style."""


class RowWidget(KeptStyles):
    """The subclass says what ``rows`` it has, and calls ``changed`` where they may be others."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: list[tuple[Piece, ...]] = []
        self._strips: list[Strip | None] = []
        """As drawn; None: not yet."""
        self._width = -1
        """Cells that ``_rows`` are made for; -1: they are to be made anew."""

    def rows(self, width: int) -> Sequence[Sequence[Piece]]:
        """What there is to see in ``width`` cells; longer rows are cut."""
        raise NotImplementedError

    def changed(self, layout: bool = False) -> None:
        """See what is other than before, now or when it is drawn; ``layout``: it may need other room."""
        width = self.content_size.width
        if layout or not width or width != self._width:
            self._width = -1
            self.refresh(layout=layout)
            return
        before = self._rows
        for y in self._make(width, max(len(before), self.content_size.height)):
            self.refresh(Region(0, y, width, 1))

    def _make(self, width: int, height: int) -> list[int]:
        """The rows, of ``height``, that are other than before."""
        before = dict(enumerate(zip(self._rows, self._strips, strict=True)))
        same = self._width == width
        self._width, self._rows = width, [tuple(row) for row in self.rows(width)]
        self._strips = [None] * len(self._rows)
        other = []
        for y in range(max(height, len(self._rows))):
            was, strip = before.get(y, ((), None))
            if same and was == (self._rows[y] if y < len(self._rows) else ()):
                if y < len(self._rows):
                    self._strips[y] = strip
            else:
                other.append(y)
        return other

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many as it has rows."""
        return len(self.rows(width))

    def render_line(self, y: int) -> Strip:
        """Row ``y``, as drawn before where nothing has changed since."""
        width = self.content_size.width
        if width != self._width:
            self._make(width, 0)
        strip = self._strips[y] if y < len(self._strips) else None
        if strip is None:
            row = self._rows[y] if y < len(self._rows) else ()
            base = self.style_of()
            segments = [Segment(text, self.style_of(css)) for text, css in row]
            strip = Strip(segments).adjust_cell_length(width, base)
            if y < len(self._strips):
                self._strips[y] = strip
        return strip

    def notify_style_update(self) -> None:
        """Other colours."""
        self._strips = [None] * len(self._rows)
        super().notify_style_update()
