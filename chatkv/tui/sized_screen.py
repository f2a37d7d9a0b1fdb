"""Panes resize: the line between two of them moves by key and by mouse."""

from __future__ import annotations

from typing import NamedTuple

from textual.events import Click, MouseDown, MouseMove, MouseUp, Resize
from textual.geometry import Offset, Region
from textual.widget import Widget

from chatkv.tui.arranged_screen import ArrangedScreen
from chatkv.tui.chip_row import ChipRow
from chatkv.tui.layout import Arrangement
from chatkv.tui.pane_area import PaneArea
from chatkv.tui.split import LEAST, Line

STEP = {False: 3, True: 1}
"""Cells that a key moves a line: one that stands moves by columns, one that lies by rows."""


class Held(NamedTuple):
    """The line that the mouse has taken."""

    line: Line
    start: Offset


class SizedScreen(ArrangedScreen):
    """Lines are the borders of neighbours; a double click on one, or ``0``, gives the usual sizes back."""

    _held: Held | None = None

    def _areas(self) -> tuple[PaneArea, PaneArea]:
        return self.cache, self.body

    def _lines(self) -> list[tuple[Line, Region]]:
        """All that are seen, inner ones first, with their cells on the screen."""
        if self.one_pane or self.arrangement is Arrangement.TINY:
            return []
        return [
            (line, line.region.translate(area.content_region.offset))
            for area in self._areas()
            if area is self.body or "cache" in self.body.plan.regions
            for line in reversed(area.plan.lines)
        ]

    def line_at(self, x: int, y: int) -> Line | None:
        """The line under a cell of the screen; tabs and what lies over the panes are not a part of it."""
        line = next((line for line, region in self._lines() if region.contains(x, y)), None)
        if line is None:
            return None
        under = self.get_widget_at(x, y)[0]
        return None if isinstance(under, ChipRow) or not self.pane_of(under) else line

    def get_focusable_widget_at(self, x: int, y: int) -> Widget | None:
        """Who drags a line goes on with what they were doing."""
        return None if self.line_at(x, y) is not None else super().get_focusable_widget_at(x, y)

    # -- by mouse ----------------------------------------------------------------------------

    def on_mouse_down(self, event: MouseDown) -> None:
        """Take the line that is there."""
        line = self.line_at(event.screen_x, event.screen_y) if event.button == 1 else None
        if line is not None:
            event.stop()
            self.clear_selection()
            self._held = Held(line, event.screen_offset)
            self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        """The line goes with the mouse."""
        if self._held is None:
            return
        event.stop()
        line, start = self._held
        moved = event.screen_offset - start
        self._move(line, line.at + (moved.y if line.down else moved.x))

    def on_mouse_up(self, event: MouseUp) -> None:
        """Let go of it."""
        if self._held is not None:
            event.stop()
            self._let_go()

    def on_resize(self, event: Resize) -> None:
        """Nothing is where it was."""
        self._let_go()

    def _let_go(self) -> None:
        if self._held is not None:
            self._held = None
            self.release_mouse()

    def on_click(self, event: Click) -> None:
        """On a border: once focuses, twice zooms on a title and gives the usual sizes back elsewhere."""
        x, y = event.screen_offset
        under = self.get_widget_at(x, y)[0]
        pane = "" if isinstance(under, ChipRow) else self.pane_of(under)
        if not pane:
            return
        title = y == self.query_one(f"#{pane}").region.y
        line = self.line_at(x, y)
        if event.chain == 1 and line is not None:
            self.focus_in(pane)
        elif event.chain == 2 and title:
            if not self.one_pane:
                self._at = pane
            self.action_zoom()
        elif event.chain == 2 and line is not None:
            self.action_usual_sizes()

    # -- by key ------------------------------------------------------------------------------

    def action_move_line(self, way: str) -> None:
        """Move the line at the focused pane: the one behind it, or, where it is the last, the one before."""
        by = -1 if way in ("left", "up") else 1
        down = way in ("up", "down")
        if (line := self._line_of(self.at, down)) is not None:
            self._move(line, line.at + by * STEP[down])

    def action_grow(self, columns: int, rows: int) -> None:
        """The focused pane gets more room, or less, whichever of its sides it is that moves."""
        down = rows != 0
        if (line := self._line_of(self.at, down)) is not None:
            by = (rows or columns) * STEP[down]
            ends = self.at in line.panes_before
            self._move(line, line.at + (by if ends else -by))

    def _line_of(self, pane: str, down: bool) -> Line | None:
        """The innermost one at the pane; before its end rather than its beginning."""
        names = {pane, "cache"} if pane in self.cache.plan.regions else {pane}
        touching = [
            line
            for line, _ in self._lines()
            if line.down is down and names.intersection((*line.panes_before, *line.panes_after))
        ]
        ends = (o for o in touching if o.split == touching[0].split and names.intersection(o.panes_before))
        return next(ends, touching[0]) if touching else None

    def _move(self, line: Line, at: int) -> None:
        """Put it there, or as near as the least sizes of what is beside it allow."""
        area = next((area for area in self._areas() if line.split in area.plan.lengths), None)
        lengths = dict(area.plan.lengths[line.split]) if area is not None else {}
        now = next((o for a in self._areas() for o in a.plan.lines if o[:4] == line[:4]), None)
        if area is None or now is None:
            return
        both = lengths[line.before] + lengths[line.after]
        least = LEAST.height if line.down else LEAST.width
        before = max(least, min(both - least, lengths[line.before] + at - now.at))
        if before != lengths[line.before]:
            lengths[line.before], lengths[line.after] = before, both - before
            self.kept.set_lengths(line.split, lengths)
            self.set_up()
