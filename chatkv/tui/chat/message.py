"""The widget that a message is: who said it at the left, and blocks of rows, drawn once and kept."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click, MouseScrollDown, MouseScrollLeft, MouseScrollRight, MouseScrollUp
from textual.geometry import Offset, Region, Size
from textual.message import Message as TextualMessage
from textual.selection import SELECT_ALL, Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from chatkv.text import one_line
from chatkv.tui.chat.looks import MessageLooks
from chatkv.tui.chat.rows import Block, Laid, Row, Text, gap

WHO = 8
"""Cells of the column that says who."""
_RIGHT = 1
_SIDEWAYS = 6
"""Cells that a turn of the wheel moves code."""
_NOTHING = Text(Content(""))


@dataclass(slots=True)
class _Placed:
    """A block that is laid out, and where: its first row and its first line in the message."""

    block: Block
    laid: Laid
    strips: list[Strip | None]
    """Its rows as drawn; None: not yet."""
    row: int
    line: int


class MessageList(Vertical):
    """Messages that look as ``looks`` says."""

    def __init__(self, looks: MessageLooks) -> None:
        super().__init__(classes="list")
        self.looks = looks


class MessageView(Widget):
    """Base: what it says is told by ``blocks``; those that are the same objects as before are not drawn anew.

    It paints rows itself: Textual's Markdown has a dozen widgets for each message, and drawing them anew, or
    mounting them for another session, took most of what the screen took.
    """

    DEFAULT_CSS = """
    MessageView { height: auto; margin: 0 0 1 0; }
    """

    WHO: ClassVar[str] = "message--who"
    """The component class of the list in which it says who."""

    message_id: str | None = None
    """None while it is not (or never becomes) a message of the conversation."""

    class Clicked(TextualMessage):
        """The person clicked the message ``id``."""

        def __init__(self, id: str) -> None:
            self.id = id
            super().__init__()

    def __init__(self, who: str) -> None:
        super().__init__()
        self._who = who
        self._picked = False
        self._width = 0
        """Cells of the text as it is laid out now."""
        self._placed: list[_Placed] = []
        self._starts: list[int] = []
        """The first row of each."""
        self._height = 0
        self._lines: list[str] = []
        """All that can be copied."""

    def blocks(self) -> Sequence[Block]:
        """What it says now."""
        raise NotImplementedError

    def head(self, who: str) -> None:
        """Show that this one said it."""
        if who != self._who:
            self._who = who
            self._forget(self._placed[:1])
            self.refresh()

    def select(self, selected: bool) -> None:
        """Show that keys act on this one (or no longer)."""
        if selected != self._picked:
            self._picked = selected
            self._forget(self._placed[:1])
            self.refresh()

    # -- layout ------------------------------------------------------------------------------

    def changed(self) -> None:
        """``blocks`` has something else to say."""
        if not self.is_attached or not self._width:
            self._width = 0
            return
        height = self._height
        first = self._lay(self._width)
        if self._height != height:
            self.refresh(layout=True)
        elif first < height:
            self.refresh(Region(0, first, self.size.width, height - first))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Rows at this width."""
        self._lay_for(width)
        return self._height

    def _lay_for(self, width: int) -> None:
        room = max(1, width - WHO - _RIGHT)
        if room != self._width:
            self._placed.clear()
            self._lay(room)

    def _lay(self, width: int) -> int:
        """The first row that has changed."""
        self._width = width
        kept = {id(placed.block): placed for placed in self._placed}
        same, self._placed = self._placed, []
        lines: list[str] = []
        row = changed = 0
        before: Block | None = None
        for at, block in enumerate(self.blocks() or (_NOTHING,)):
            row += gap(before, block)
            old = kept.get(id(block))
            laid = old.laid if old else block.lay(width)
            if old and (old.line, old.row == 0) == (len(lines), row == 0):
                strips = old.strips
            else:
                strips = [None] * len(laid.rows)
            if at < len(same) and same[at].block is block and changed == at:
                changed += 1
            self._placed.append(_Placed(block, laid, strips, row, len(lines)))
            row += len(laid.rows)
            lines += laid.lines
            before = block
        self._lines, self._height = lines, row
        self._starts = [placed.row for placed in self._placed]
        return self._starts[changed] if changed < len(self._starts) else row

    def _at(self, y: int) -> tuple[_Placed | None, int]:
        """What row ``y`` is of, and which of its rows; one between two blocks is behind the first one's."""
        at = bisect_right(self._starts, y) - 1
        return (self._placed[at], y - self._starts[at]) if at >= 0 else (None, 0)

    @property
    def laid_out(self) -> bool:
        """Has it, on the screen, as many rows as it takes?"""
        return bool(self._width) and self.size.height == self._height

    def find(self, words: str) -> int:
        """Select ``words`` (any case), or the first of them, where they stand; which row that is, else 0."""
        for wanted in (words.casefold(), *words.casefold().split()[:1]):
            for line, text in enumerate(self._lines):
                start = text.casefold().find(wanted)
                if start < 0:
                    continue
                end = Offset(start + len(wanted), line)
                self.screen.selections = {self: Selection(Offset(start, line), end)}
                placed = next(p for p in reversed(self._placed) if p.line <= line)
                rows = [r for r in placed.laid.rows if r.line == line - placed.line and r.x <= start]
                return placed.row + (placed.laid.rows.index(rows[-1]) if rows else 0)
        return 0

    def block_at(self, y: int) -> Block | None:
        """The block that row ``y`` belongs to; None between two."""
        placed, row = self._at(y)
        return placed.block if placed is not None and row < len(placed.laid.rows) else None

    # -- drawing -----------------------------------------------------------------------------

    def _forget(self, placed: Sequence[_Placed]) -> None:
        for each in placed:
            each.strips[:] = [None] * len(each.strips)

    def notify_style_update(self) -> None:
        """Other colours."""
        super().notify_style_update()
        self._forget(self._placed)

    def selection_updated(self, selection: Selection | None) -> None:
        """Other text is selected."""
        self._forget(self._placed)
        super().selection_updated(selection)

    def render_lines(self, crop: Region) -> list[Strip]:
        """As drawn before, where nothing has changed since."""
        self._lay_for(self.size.width)
        strips = [self._strip(y) for y in crop.line_range]
        hover = self.hover_style
        if hover._link_id and hover._meta and "@click" in hover.meta:
            strips = [strip.style_links(hover.link_id, self.link_style_hover) for strip in strips]
        background = self.background_colors[1]
        for filter in self.get_line_filters():
            strips = [strip.apply_filter(filter, background) for strip in strips]
        if crop.column_span != (0, self.size.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def _strip(self, y: int) -> Strip:
        placed, at = self._at(y)
        if placed is None or at >= len(placed.strips):
            return Strip.blank(self.size.width, self.visual_style.rich_style)
        strip = placed.strips[at]
        if strip is None:
            if not self.is_attached:  # a last frame of one that is being removed, and has no styles any more
                return Strip.blank(self.size.width)
            strip = placed.strips[at] = self._drawn(placed.laid.rows[at], placed.line, y == 0)
        return strip

    def _drawn(self, row: Row, line: int, first: bool) -> Strip:
        base = self.visual_style
        plain = base.rich_style
        name = set_cell_size(("▸" if self._picked else " ") + self._who, WHO) if first else " " * WHO
        segments = [
            Segment(name, self._style("message--picked" if self._picked else self.WHO) if first else plain)
        ]
        for mark, classes in row.before:
            segments.append(Segment(mark, self._style(*classes) if classes else plain))
        style = self._visual_style_of(*row.under) if row.under else base
        width = max(0, self._width - row.indent - row.outdent)
        text = self._with_selection(row, line)
        parts = [
            Segment(part, (style + own).rich_style)
            for part, own in text.render(style, end="", parse_style=self._looks._get_style)
        ]
        strip = Strip(parts).adjust_cell_length(width, style.rich_style)
        if any(part.style is not None and part.style._meta is not None for part in parts):
            strip = strip._apply_link_style(self.link_style)
        segments += strip
        for mark, classes in row.after:
            segments.append(Segment(mark, self._style(*classes) if classes else plain))
        segments.append(Segment(" " * _RIGHT, plain))
        return Strip(segments).adjust_cell_length(self.size.width, plain)

    @property
    def _looks(self) -> MessageLooks:
        assert isinstance(self.parent, MessageList), "messages are in a list of them"
        return self.parent.looks

    def _visual_style_of(self, *classes: str) -> Style:
        return self._looks.get_visual_style(*classes)

    def _style(self, *classes: str) -> RichStyle:
        return self._visual_style_of(*classes).rich_style

    # -- selecting text ----------------------------------------------------------------------

    def _with_selection(self, row: Row, line: int) -> Content:
        selection = self.text_selection
        span = selection.get_span(line + row.line) if selection is not None else None
        if span is None:
            return row.text
        start, end = span[0] - row.x, len(row.text) if span[1] < 0 else span[1] - row.x
        if end <= 0 or start >= len(row.text):
            return row.text
        style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
        return row.text.stylize(style, max(0, start), min(end, len(row.text)))

    def render_line(self, y: int) -> Strip:
        """Not what is drawn: it tells which character of ``_lines`` the mouse points at.

        Left of the text is its beginning, and right of it its end.
        """
        placed, at = self._at(y)
        if placed is None:
            return Strip.blank(self.size.width)
        rows = placed.laid.rows
        row = rows[min(at, len(rows) - 1)]
        line, x = placed.line + row.line, row.x
        if at >= len(rows):  # between two blocks
            return Strip([Segment(" ", _pointing(len(self._lines[line]), line))])
        starts = x if at and rows[at - 1].line == row.line else 0
        before = [Segment(" ", _pointing(starts, line))] * (WHO + row.indent)
        return Strip([*before, Segment(row.text.plain or " ", _pointing(x, line))])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Lines as they are, however they are wrapped."""
        start, end = selection.start or Offset(0, 0), selection.end
        lines = self._lines[start.y :] if end is None else self._lines[start.y : end.y + 1]
        if not lines:
            return None
        if end is not None and end.y - start.y < len(lines):
            lines[-1] = lines[-1][: end.x]
        lines[0] = lines[0][start.x :]
        return "\n".join(lines), "\n"

    async def _on_click(self, event: Click) -> None:
        """Twice selects the text of a block, three times that of the message."""
        event.prevent_default()
        if "@click" in event.style.meta:
            await self.broker_event("click", event)
        elif event.chain == 3:
            self.screen.selections = {self: SELECT_ALL}
        elif event.chain == 2 and (placed := self._at(event.y)[0]) is not None:
            last = placed.line + len(placed.laid.lines) - 1
            self.screen.selections = {
                self: Selection(Offset(0, placed.line), Offset(len(self._lines[last]), last))
            }
        elif (
            not self.screen.get_selected_text() and not self.clicked(event.y) and self.message_id is not None
        ):
            self.post_message(self.Clicked(self.message_id))

    def clicked(self, y: int) -> bool:
        """Row ``y`` was; True where that means something else than to select the message."""
        return False

    def action_link(self, address: str) -> None:
        """Clicked; the person decides what opens it."""
        self.app.copy_to_clipboard(address)
        self.notify(f"copied {one_line(address, 200)}", markup=False)

    # -- code that is wider than the pane ----------------------------------------------------

    @property
    def too_wide(self) -> bool:
        """Whether any of it goes on out of sight."""
        return any(placed.block.too_wide for placed in self._placed)

    def move_sideways(self, cells: int) -> None:
        """What is too wide for the pane."""
        for placed in self._placed:
            self._move(placed, cells)

    def _move(self, placed: _Placed, cells: int) -> bool:
        if not placed.block.scroll(cells):
            return False
        placed.laid = placed.block.lay(self._width)
        self._forget([placed])
        self.refresh()
        return True

    def _scroll_sideways(self, y: int, cells: int) -> bool:
        placed, _ = self._at(y)
        return placed is not None and self._move(placed, cells)

    def _on_mouse_scroll_right(self, event: MouseScrollRight) -> None:
        if self._scroll_sideways(event.y, _SIDEWAYS):
            event.stop()

    def _on_mouse_scroll_left(self, event: MouseScrollLeft) -> None:
        if self._scroll_sideways(event.y, -_SIDEWAYS):
            event.stop()

    def _on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        if (event.shift or event.ctrl) and self._scroll_sideways(event.y, _SIDEWAYS):
            event.stop()

    def _on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        if (event.shift or event.ctrl) and self._scroll_sideways(event.y, -_SIDEWAYS):
            event.stop()


def _pointing(x: int, line: int) -> RichStyle:
    return RichStyle.from_meta({"offset": (x, line)})
