"""What opens over the screen: what lies below is seen through its background, and goes on."""

from __future__ import annotations

from typing import TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region
from textual.screen import ModalScreen, Screen
from textual.strip import Strip

from chatkv.tui.quick_compositor import QuickCompositor

T = TypeVar("T")
_KEPT = 8_192
"""Styles of which it is remembered what they look like through the background."""


class Dialog(ModalScreen[T]):
    """Textual draws all of what lies below, cell by cell, for each row of it that changes. This one draws the
    row, and knows how a style looks through its background.
    """

    def __init__(self) -> None:
        super().__init__()
        self._compositor = QuickCompositor()
        self._shades: dict[Style, Style] = {}
        self._shade = Color(0, 0, 0)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows below, shaded; no links or selected text in them."""
        below, color = self._below(), self.styles.background
        if below is None or below._compositor.size != self.size:
            return super().render_lines(crop)
        if color != self._shade or len(self._shades) > _KEPT:
            self._shades.clear()
            self._shade = color
        rows = range(crop.y, crop.bottom)
        chops = below._compositor._render_chops(
            Region(0, crop.y, self.size.width, crop.height), rows.__contains__
        )
        strips = [self._shaded(Strip.join(chops[y].values())) for y in rows]
        for filter in self.get_line_filters():
            strips = [strip.apply_filter(filter, color) for strip in strips]
        if crop.column_span != (0, self.size.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def _below(self) -> Screen[object] | None:
        stack = self.app.screen_stack
        at = stack.index(self) if self in stack else 0
        return stack[at - 1] if at else None

    def _shaded(self, strip: Strip) -> Strip:
        shades = self._shades
        out = []
        for text, style, control in strip:
            style = style or Style.null()
            shade = shades.get(style)
            if shade is None:
                shade = shades[style] = _shaded(style, self._shade)
            out.append(Segment(text, shade, control))
        return Strip(out, strip.cell_length)


def _shaded(style: Style, color: Color) -> Style:
    bare = style.clear_meta_and_links()
    if not color.a:
        return bare
    front, back = (
        None if each is None else (Color.from_rich_color(each) + color).rich_color
        for each in (style.color, style.bgcolor)
    )
    return bare + Style.from_color(front, back)
