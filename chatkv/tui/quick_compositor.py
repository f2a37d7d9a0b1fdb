"""Textual's compositor, which draws the same picture with less work.

Streaming moves the chat several times a second. Textual then asks every widget that touches the changed
area for all of its lines, also those that lie wholly under others, and styles the blank lines of each
container one by one; most of a frame's time went there, and with it the engine's turn.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate, ReflowResult
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from chatkv.tui.sure_places import PlacedChops, PlacedLayout


class QuickCompositor(Compositor):
    """Leaves out what can't be seen or has not changed. Every widget paints all of its cells, opaquely."""

    def __init__(self) -> None:
        super().__init__()
        self._wanted: list[Region] | None = None
        """What has changed, while a partial update is made; None: everything."""
        self._seen: dict[Widget, Region] = {}
        self._seen_of: object = None
        """The layout that ``_seen`` was taken from."""
        self._blanks: LRUCache[tuple[int, Style], Strip] = LRUCache(256)

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """See the base class. The map that it makes is the full one: it need not be made once more."""
        result = super().reflow(parent, size)
        self._full_map_invalidated = False
        return result

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        """See the base class."""
        update = super().render_full_update(simplify)
        return PlacedLayout(update.strips, update.region)

    def render_partial_update(self) -> ChopsUpdate | None:
        """See the base class."""
        self._wanted = list(self._dirty_regions)
        try:
            update = super().render_partial_update()
        finally:
            self._wanted = None
        return PlacedChops(update.chops, update.spans, update.chop_ends) if update is not None else None

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        wanted = self._wanted if self._wanted is not None else [crop or self.size.region]
        regions = self.visible_widgets
        for widget, area in self._seen_widgets().items():
            rows = [(part.y, part.bottom) for part in wanted if part.overlaps(area)]
            if rows:
                first = max(area.y, min(rows)[0])
                last = min(area.bottom, max(bottom for _, bottom in rows))
                area = Region(area.x, first, area.width, last - first)
                region = regions[widget][0]
                yield region, area, self._lines(widget, area.translate(-region.offset))

    def _seen_widgets(self) -> dict[Widget, Region]:
        """Where widgets lie, without those that others cover; those in front come first."""
        visible = self.visible_widgets
        if self._seen_of is not visible:
            covered = np.zeros((self.size.height, self.size.width), np.bool_)
            self._seen_of, self._seen = visible, {}
            for widget, (region, clip) in visible.items():
                area = region.intersection(clip)
                cells = covered[area.y : area.bottom, area.x : area.right]
                if area and not cells.all():
                    cells[:] = True
                    self._seen[widget] = area
        return self._seen

    def _lines(self, widget: Widget, crop: Region) -> list[Strip]:
        if not _blank(widget):
            return widget.render_lines(crop)
        background = widget.background_colors[1]
        style = Style.from_color(bgcolor=background.rich_color)
        key = (crop.width, style)
        strip = self._blanks.get(key)
        if strip is None:
            strip = self._blanks[key] = Strip.blank(crop.width, style)
        for filter in widget.get_line_filters():
            strip = strip.apply_filter(filter, background)
        return [strip] * crop.height


def _blank(widget: Widget) -> bool:
    """Whether all it draws is its background: a container without lines around or in it."""
    kind = type(widget)
    if (kind.render, kind.render_line, kind.render_lines) != (
        Widget.render,
        Widget.render_line,
        Widget.render_lines,
    ):
        return False
    styles = widget.styles
    return (
        widget.is_container
        and not any(edge for edge, _ in (*styles.border, *styles.outline))
        and not styles.has_rule("keyline")
        and not styles.has_rule("hatch")
        and not styles.tint.a
        and widget.opacity == 1.0
    )
