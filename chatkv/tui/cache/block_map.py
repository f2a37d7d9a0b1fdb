"""The block pool as a map: one cell a block, or, where the pool is larger than the pane, many."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from chatkv.insight.mirror import Mirror
from chatkv.tui.cache.boxed import Boxed
from chatkv.tui.cache.messages import BlockSelected, TreeWanted
from chatkv.tui.cache.pool_scale import Cells, Scale, gather
from chatkv.tui.cache.shown import Shown
from chatkv.tui.cache.states import BLOCK_LOOKS, LOOK_CLASSES, look_css
from chatkv.tui.cheap_layout import set_extent
from chatkv.tui.kept_styles import KeptStyles
from chatkv.tui.keys.current import bind


class BlockMapView(ScrollView, Boxed, KeptStyles, can_focus=True):
    """``0000 ==========++..====.. 0024``: the glyph is the block's state.

    A pool that does not fit is drawn denser: a cell is a run of blocks and shows the state most of
    them are in that are not free; it is dim where those are the fewer. ``+`` and ``-`` (or ctrl and
    the wheel) go nearer and further, with the cursor where it is on the screen, ``d`` to one cell a
    block and back; enter on a dense cell goes to its first block, enter on a block posts
    ``BlockSelected``, ``t`` posts ``TreeWanted``.
    """

    DEFAULT_CSS = f"""
    BlockMapView {{
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
    }}
    BlockMapView > .block-map--address {{ color: $text-muted; }}
    BlockMapView > .block-map--cursor {{ text-style: reverse; }}
    BlockMapView > .block-map--mine {{ text-style: bold underline; }}
    {look_css("BlockMapView")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = LOOK_CLASSES | {
        "block-map--address",
        "block-map--cursor",
        "block-map--mine",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("move.left", "move(-1)"),
        bind("move.right", "move(1)"),
        bind("move.up", "move_rows(-1)"),
        bind("move.down", "move_rows(1)"),
        bind("move.page_up", "move_pages(-1)"),
        bind("move.page_down", "move_pages(1)"),
        bind("move.first", "go(0)"),
        bind("move.last", "go(-1)"),
        bind("pane.inspect", "select", "Inspect"),
        bind("map.nearer", "zoom(1)"),
        bind("map.further", "zoom(-1)"),
        bind("pane.tree", "tree", "Tree", tooltip="Its node in the tree"),
        bind("map.density", "density", "Density", tooltip="One cell a block, or the whole pool in the pane"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._states: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._mine: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._cells = gather(self._states, self._mine, 1)
        self._scale = Scale()
        self._counts = "Blocks", ""
        self.name_box("Blocks")
        self._cursor = 0
        """A block."""
        self.columns = 8
        self._shown = Shown()
        self._lit: frozenset[int] = frozenset()
        self._lit_cells: frozenset[int] = frozenset()

    @property
    def per_cell(self) -> int:
        """Blocks a cell."""
        return self._scale.per_cell

    def light(self, blocks: Iterable[int]) -> None:
        """Let these blocks stand out, and no others, and bring the first of them into view."""
        lit = frozenset(block for block in blocks if 0 <= block < len(self._states))
        if lit != self._lit:
            self._lit = lit
            self._lit_cells = frozenset(block // self.per_cell for block in lit)
            if lit:
                self.go_to(min(lit))
            self.refresh()

    def show(self, mirror: Mirror, focus_session: str | None) -> None:
        """Draw this state; the blocks in open rows of ``focus_session`` stand out."""
        if self._shown.again(mirror, focus_session):
            return
        states = mirror.block_states()
        mine = np.zeros(len(states), np.bool_)
        for row in mirror.rows.values():
            if row.session == focus_session:
                mine[row.blocks] = True
        used = mirror.num_blocks - mirror.free
        if mirror.num_blocks:
            self._counts = f"Blocks {used}/{mirror.num_blocks}", f" · {mirror.block_size} tok"
        self._set_title()
        if np.array_equal(states, self._states) and np.array_equal(mine, self._mine):
            return
        resized = len(states) != len(self._states)
        self._states, self._mine = states.copy(), mine
        self._cursor = max(0, min(self._cursor, len(states) - 1))
        if resized:
            self._lay_out()
        else:
            self._redraw(self._cells, self._gather())

    def _set_title(self) -> None:
        counts, unit = self._counts
        # What has to be known to read the map comes before what may give way to tabs.
        self.name_box(counts + (f" · {self.per_cell} a cell" if self.per_cell > 1 else "") + unit)

    # -- layout ------------------------------------------------------------------------------

    @property
    def _address_width(self) -> int:
        return max(4, len(str(len(self._states))))

    def _columns_in(self, width: int) -> int:
        return max(8, (width - 2 * (self._address_width + 1)) // 8 * 8)

    def _lay_out(self) -> None:
        """Columns and blocks a cell from the room there is."""
        width, height = self.size
        self.columns = self._columns_in(width)
        blocks = len(self._states)
        room = self.columns * max(1, height)
        self._scale.fit = max(1, -(-blocks // room))
        if self.per_cell < self._scale.fit:
            self.columns = self._columns_in(width - self.styles.scrollbar_size_vertical)
        self._gather()
        self._set_title()
        rows = -(-len(self._cells.states) // self.columns)
        set_extent(self, Size(width, rows))
        self._reveal()
        self.refresh()

    def _gather(self) -> Cells:
        """What each cell shows."""
        self._cells = gather(self._states, self._mine, self.per_cell)
        self._lit_cells = frozenset(block // self.per_cell for block in self._lit)
        return self._cells

    def _redraw(self, before: Cells, now: Cells) -> None:
        """Draw the rows anew in which a cell shows something else."""
        other = np.any([was != part for was, part in zip(before, now, strict=True)], axis=0)
        width, height = self.size
        for row in np.unique(np.flatnonzero(other) // self.columns).tolist():
            if 0 <= (y := row - self.scroll_offset.y) < height:
                self.refresh(Region(0, y, width, 1))

    def on_resize(self) -> None:
        """Fit the new size."""
        self._lay_out()

    # -- drawing -----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """One row of cells between the addresses of its first block and of the next row's."""
        width = self.size.width
        first = (y + self.scroll_offset.y) * self.columns
        base = self.style_of()
        if first >= len(self._cells.states):
            text = "no cache yet" if y == 0 and not len(self._cells.states) else ""
            return Strip([Segment(text, base)]).adjust_cell_length(width, base)
        last = min(first + self.columns, len(self._cells.states))
        cursor = self._cursor // self.per_cell if self.has_focus else -1
        address = self.style_of("block-map--address")
        states, mine, sparse = (part[first:last].tolist() for part in self._cells)
        here = [cell == cursor or cell in self._lit_cells for cell in range(first, last)]
        segments = [Segment(f"{first * self.per_cell:0{self._address_width}d} ", address)]
        for look, run in groupby(zip(states, mine, sparse, here, strict=True)):
            segments.append(Segment(BLOCK_LOOKS[look[0]].glyph * len(list(run)), self._style(*look)))
        if last - first == self.columns:
            end = min(last * self.per_cell, len(self._states))
            segments.append(Segment(f" {end:0{self._address_width}d}", address))
        return Strip(segments).adjust_cell_length(width, base)

    def _style(self, state: int, mine: bool, sparse: bool, here: bool) -> Style:
        style = self.style_of(BLOCK_LOOKS[state].css)
        if sparse:
            style += Style(dim=True)
        if mine:
            style += self.style_of("block-map--mine", partial=True)
        if here:
            style += self.style_of("block-map--cursor", partial=True)
        return style

    # -- moving ------------------------------------------------------------------------------

    @property
    def cursor(self) -> int:
        """The block the cursor is on (the first one of a dense cell)."""
        return self._cursor

    def go_to(self, block: int) -> None:
        """Put the cursor on ``block`` (the nearest one that exists)."""
        self._cursor = max(0, min(block, len(self._states) - 1))
        self._reveal()
        self.refresh()

    @property
    def _cursor_row(self) -> int:
        return self._cursor // self.per_cell // self.columns

    def _reveal(self) -> None:
        self.scroll_to_region(Region(0, self._cursor_row, 1, 1), animate=False, force=True)

    def action_move(self, cells: int) -> None:
        """Move by ``cells``."""
        cell = self._cursor // self.per_cell + cells
        if 0 <= cell < len(self._cells.states):
            self.go_to(cell * self.per_cell)

    def action_move_rows(self, rows: int) -> None:
        """Move by ``rows``, in the same column."""
        self.action_move(rows * self.columns)

    def action_move_pages(self, pages: int) -> None:
        """Move by ``pages`` of rows, to the first or last cell at most."""
        step = pages * self.columns * max(1, self.scrollable_content_region.height - 1)
        self.go_to((self._cursor // self.per_cell + step) * self.per_cell)

    def action_go(self, block: int) -> None:
        """Go to ``block``; -1 is the last one."""
        self.go_to(block if block >= 0 else len(self._states) - 1)

    def action_density(self) -> None:
        """One cell a block, or the whole pool in the pane."""
        self._rescale(1 if self.per_cell > 1 else None)

    def action_zoom(self, by: int) -> None:
        """``by`` steps nearer, at most to one cell a block; or further, until the whole pool is seen."""
        self._rescale(self._scale.nearer(by))

    def _rescale(self, chosen: int | None) -> None:
        """Draw at this scale; what the cursor is on stays where it is on the screen."""
        height = self.scrollable_content_region.height
        before = max(0, min(self._cursor_row - self.scroll_offset.y, height - 1))
        self._scale.chosen = chosen
        self._lay_out()
        self.scroll_to(y=max(0, self._cursor_row - before), animate=False, force=True)

    def action_tree(self) -> None:
        """Ask for the node in the tree that holds the block."""
        if len(self._states):
            self.post_message(TreeWanted(self._cursor))

    def action_select(self) -> None:
        """Ask for the block under the cursor; in a dense map, go to it."""
        if not len(self._states):
            return
        if self.per_cell > 1:
            self._rescale(1)
        else:
            self.post_message(BlockSelected(self._cursor))

    def on_click(self, event: events.Click) -> None:
        """Ask for the block that was clicked."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        column = offset.x - self._address_width - 1
        cell = (offset.y + self.scroll_offset.y) * self.columns + column
        if 0 <= column < self.columns and 0 <= cell < len(self._cells.states):
            self.go_to(cell * self.per_cell)
            self.action_select()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """With ctrl: nearer."""
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """With ctrl: further."""
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, by: int) -> None:
        if event.ctrl:
            event.stop()
            event.prevent_default()
            self.action_zoom(by)
