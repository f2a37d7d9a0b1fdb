"""The focused session's row of the block table: which physical block each logical block is."""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from chatkv.insight.hashes import RowHashes
from chatkv.insight.mirror import Mirror, Row
from chatkv.insight.nodes import BlockState
from chatkv.kvcache.block_hash import Hash
from chatkv.tui.cache.accounting import account_line, last_accounted
from chatkv.tui.cache.boxed import Boxed
from chatkv.tui.cache.messages import BlockSelected, MapWanted, TreeWanted
from chatkv.tui.cache.shown import Shown
from chatkv.tui.cache.states import BLOCK_LOOKS, LOOK_CLASSES, look_css
from chatkv.tui.cache.tree.line import plain
from chatkv.tui.cheap_layout import set_extent
from chatkv.tui.kept_styles import KeptStyles
from chatkv.tui.keys.current import bind

_NAMES = ("logical", "phys", "hash", "state", "filled", "ref")
_LOGICAL, _PHYS, _HASH, _STATE, _FILLED, _REF = range(len(_NAMES))
_HASH_DIGITS = 8
_ACCOUNT = len(_NAMES)
"""The line that says where the prompt's tokens came from."""
_NAME_WIDTH = 8


class BlockTableView(ScrollView, Boxed, KeptStyles, can_focus=True):
    """A column a logical block: its physical block, hash, state, tokens filled, and how many rows name it.

    The hash (its first digits) is chained over all tokens up to the block's end: two rows go the same way
    as far as their hashes are the same. A block that is not full, or not in the tree yet, has none.
    The line under them says where the prompt's tokens came from: reused, or why they were not.
    Left and right (h, l) move, enter or a click posts ``BlockSelected``, ``t`` and ``b`` go to it in
    the tree and in the map. After a request has ended, its row stays to be looked at until the session
    asks again or others take its blocks; it then says ``closed``.
    """

    DEFAULT_CSS = f"""
    BlockTableView {{
        height: 9;
        overflow-x: auto;
        overflow-y: auto;
        scrollbar-size-horizontal: 0;
        scrollbar-size-vertical: 1;
    }}
    BlockTableView > .block-table--name {{ color: $text-muted; }}
    BlockTableView > .block-table--cursor {{ text-style: reverse; }}
    {look_css("BlockTableView")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = LOOK_CLASSES | {"block-table--name", "block-table--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("move.left", "move(-1)"),
        bind("move.right", "move(1)"),
        bind("move.first", "go(0)"),
        bind("move.last", "go(-1)"),
        bind("pane.inspect", "select", "Inspect"),
        bind("pane.tree", "tree", "Tree", tooltip="Its node in the tree"),
        bind("pane.blocks", "map", "Blocks", tooltip="The block in the map"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.name_box("Block table")
        self._row: Row | None = None
        self._open = False
        self._states: list[int] = []
        self._refs: list[int] = []
        self._row_hashes = RowHashes()
        self._hashes: list[Hash | None] = []
        self._column = 4
        """Cells a logical block takes, with the space before it."""
        self._cursor = 0
        self._account = ""
        self._shown = Shown()

    def show(self, mirror: Mirror, focus_session: str | None) -> None:
        """Draw the newest row of ``focus_session``."""
        if self._shown.again(mirror, focus_session):
            return
        row = self._newest(mirror, focus_session)
        if row is None:
            changed, self._row = self._row is not None, None
        else:
            changed = self._take(row, mirror)
        changed |= self._take_account(mirror, focus_session)
        title = "Block table"
        if row is not None:
            title += f" · req {row.request}{'' if self._open else ' closed'} · {row.written} tok"
            if self._open:
                title += f" · {len(row.blocks) * mirror.block_size - row.written} unfilled"
        self.name_box(title)
        if changed:
            blocks = len(self._row.blocks) if self._row else 0
            self._cursor = max(0, min(self._cursor, blocks - 1))
            height = len(_NAMES) + bool(self._account)
            set_extent(self, Size(_NAME_WIDTH + blocks * self._column, height))
            self.refresh()

    def _newest(self, mirror: Mirror, session: str | None) -> Row | None:
        open_rows = [row for row in mirror.rows.values() if row.session == session]
        self._open = bool(open_rows)
        if open_rows:
            return max(open_rows, key=lambda row: row.request)
        return None if session is None else mirror.closed_row(session)

    def _take(self, row: Row, mirror: Mirror) -> bool:
        """Keep copies: the mirror may be another one when they are drawn. False where nothing changed."""
        named = Counter(block for other in mirror.rows.values() for block in other.blocks)
        refs = [named[block] for block in row.blocks]
        states = mirror.block_states()[row.blocks].tolist()
        before = self._row
        same = before is not None and (before.request, before.written, before.blocks) == (
            row.request,
            row.written,
            row.blocks,
        )
        hashes = self._look_up_hashes(row, mirror)
        if same and refs == self._refs and states == self._states and hashes == self._hashes:
            return False
        self._row = row.copy()
        self._hashes = hashes
        self._refs, self._states = refs, states
        self._column = max(3, len(str(max(row.blocks, default=0))), len(str(len(row.blocks)))) + 1
        return True

    def _look_up_hashes(self, row: Row, mirror: Mirror) -> list[Hash | None]:
        found = self._row_hashes.of(mirror, row)
        before = self._row
        if self._open or before is None or (before.session, before.request) != (row.session, row.request):
            return found
        # A closed row's blocks may have left the tree since they were last looked up.
        known = self._hashes[: len(found)]
        return [digest or old for digest, old in zip_longest(found, known)]

    def _take_account(self, mirror: Mirror, session: str | None) -> bool:
        account = last_accounted(mirror, session)
        before, self._account = self._account, account_line(account) if account else ""
        return self._account != before

    # -- drawing -----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """A line of the table; the names stay where they are while the blocks scroll."""
        width, base = self.scrollable_content_region.width, self.style_of()
        y += self.scroll_offset.y
        row = self._row
        name_style = self.style_of("block-table--name")
        if self._account and y == (_ACCOUNT if row is not None and row.blocks else 1):
            name = Segment("prompt".ljust(_NAME_WIDTH), name_style)
            return Strip([name, *plain(self._account, max(0, width - _NAME_WIDTH), base)])
        if row is None or not row.blocks:
            words = "no request of this session holds blocks" if row is None else "no blocks yet"
            return plain(words if y == 0 else "", width, base)
        if y >= len(_NAMES):
            return Strip.blank(width, base)
        first = self.scroll_offset.x // self._column
        last = min(len(row.blocks), first + (width - _NAME_WIDTH) // self._column + 2)
        cells = [
            Segment(self._cell(y, at, row).rjust(self._column), self._style(y, at, base))
            for at in range(first, last)
        ]
        start = self.scroll_offset.x - first * self._column
        room = max(0, width - _NAME_WIDTH)
        if y == _LOGICAL and self.scroll_offset.x + room < len(row.blocks) * self._column:
            body = Strip([*Strip(cells).crop_extend(start, start + room - 2, base), Segment(" …", base)])
        else:
            body = Strip(cells).crop_extend(start, start + room, base)
        name = Segment(_NAMES[y].ljust(_NAME_WIDTH), name_style)
        return Strip([name, *body]).adjust_cell_length(width, base)

    def _cell(self, line: int, at: int, row: Row) -> str:
        if line == _LOGICAL:
            return str(at)
        if line == _PHYS:
            return str(row.blocks[at])
        if line == _HASH:
            found = self._hashes[at] if at < len(self._hashes) else None
            return "–" if found is None else found.hex()[: min(_HASH_DIGITS, self._column - 1)]
        if line == _STATE:
            return BLOCK_LOOKS[self._states[at]].glyph
        return str(row.filled(at) if line == _FILLED else self._refs[at])

    def _style(self, line: int, at: int, base: Style) -> Style:
        style = base
        if line in (_PHYS, _STATE):
            style = self.style_of(BLOCK_LOOKS[self._states[at]].css)
        elif line == _FILLED and self._row is not None and self._row.filled(at) < self._row.block_size:
            style = self.style_of(BLOCK_LOOKS[BlockState.NEW].css)
        if self.has_focus and at == self._cursor:
            style += self.style_of("block-table--cursor", partial=True)
        return style

    # -- moving ------------------------------------------------------------------------------

    @property
    def cursor(self) -> int:
        """The logical block the cursor is on."""
        return self._cursor

    def action_move(self, blocks: int) -> None:
        """Move by ``blocks``."""
        self._go(self._cursor + blocks)

    def action_go(self, block: int) -> None:
        """Go to logical block ``block``; -1 is the last one."""
        self._go(block if block >= 0 else len(self._states) - 1)

    def _go(self, block: int) -> None:
        if self._row is None or not self._row.blocks:
            return
        self._cursor = max(0, min(block, len(self._row.blocks) - 1))
        column = Region(self._cursor * self._column, 0, self._column + _NAME_WIDTH, 1)
        self.scroll_to_region(column, animate=False, force=True)
        self.refresh()

    def action_select(self) -> None:
        """Ask for the physical block under the cursor."""
        if self._row is not None and self._row.blocks:
            self.post_message(BlockSelected(self._row.blocks[self._cursor]))

    def action_tree(self) -> None:
        """Ask for the node in the tree that holds the physical block under the cursor."""
        if self._row is not None and self._row.blocks:
            self.post_message(TreeWanted(self._row.blocks[self._cursor]))

    def action_map(self) -> None:
        """Ask for the physical block under the cursor in the map of the pool."""
        if self._row is not None and self._row.blocks:
            block = self._row.blocks[self._cursor]
            self.post_message(MapWanted((block,), f"block {block}"))

    def on_click(self, event: events.Click) -> None:
        """Ask for the block that was clicked."""
        offset = event.get_content_offset(self)
        if offset is None or self._row is None or offset.x < _NAME_WIDTH:
            return
        at = (offset.x - _NAME_WIDTH + self.scroll_offset.x) // self._column
        if at < len(self._row.blocks):
            self._go(at)
            self.action_select()
