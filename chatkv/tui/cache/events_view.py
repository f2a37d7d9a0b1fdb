"""What happened lately, a sentence a line, newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from chatkv.insight.diary import Diary, Line
from chatkv.insight.mirror import Mirror
from chatkv.insight.visible import cut
from chatkv.kvcache import events as kv
from chatkv.tui.cache.cells import pad, steady, wrapped
from chatkv.tui.cache.messages import EventSelected
from chatkv.tui.cache.states import LOOK_CLASSES, event_look, look_css
from chatkv.tui.cache.tree.line import plain
from chatkv.tui.cache.typed_filter import TypedFilter
from chatkv.tui.cheap_layout import set_extent
from chatkv.tui.frame_titles import title_frame
from chatkv.tui.kept_styles import KeptStyles
from chatkv.tui.keys.current import bind

_NARROW, _SHORT_NAME = 72, 12
"""Under how many cells names are cut, and to how many."""


class EventsView(TypedFilter, ScrollView, KeptStyles, can_focus=True):
    """``1840 x node 11 evicted …``: the last events that have something to tell.

    Arrows or jk move, and the line they come to is told in full; enter or a click posts ``EventSelected``;
    ``/`` leaves only the lines with these words (``-word``: those without it).
    """

    DEFAULT_CSS = f"""
    EventsView {{
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
    }}
    EventsView > .events--seq {{ color: $text-muted; }}
    EventsView > .events--cursor {{ text-style: reverse; }}
    {look_css("EventsView")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = LOOK_CLASSES | {"events--seq", "events--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("move.down", "move(1)"),
        bind("move.up", "move(-1)"),
        bind("move.page_down", "move_pages(1)"),
        bind("move.page_up", "move_pages(-1)"),
        bind("move.first", "go(0)"),
        bind("move.last", "go(-1)"),
        bind("pane.inspect", "select", "Show"),
        bind("pane.filter", "filter", "Filter"),
    ]

    def __init__(self, *, keep: int = 500, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Events"
        self._diary = Diary(keep)
        self._lines: list[Line] = []
        """What is shown of it, newest first."""
        self._cursor: int | None = None
        """``seq`` of the line the cursor is on; None: the newest, whichever that is."""
        self._until: int | None = None
        """``seq`` of the picture; what came later is not shown. None: no picture yet, all is."""

    @property
    def session_name(self) -> Callable[[str], str]:
        """A session's key → what people call it."""
        return self._diary.session_name

    @session_name.setter
    def session_name(self, name: Callable[[str], str]) -> None:
        self._diary.session_name = name

    def add(self, records: Iterable[kv.Event]) -> None:
        """Put these, in their order, before all others."""
        if self._diary.add(records):
            self._gather()

    def clear(self) -> None:
        """Forget all."""
        self._diary.clear()
        self._gather()

    def show(self, mirror: Mirror, focus_session: str | None) -> None:
        """The picture is of ``mirror.seq``: leave out what came later (the same for every session)."""
        if mirror.seq != self._until:
            self._until = mirror.seq
            lines = self._diary.lines
            newest = lines[0].seq if lines else 0
            if newest > mirror.seq or not self._lines or self._lines[0].seq != newest:
                self._gather()

    def filter_changed(self) -> None:
        """Only lines with all of these words are shown."""
        self._gather()
        title_frame(self, Content(f"Events {steady(self.filter_words)}".rstrip()))

    def _gather(self) -> None:
        """Choose the lines; who reads older ones goes on reading them."""
        at = self.scroll_offset.y
        reading = self._lines[self._line_at(at)].seq if at > 0 and self._lines else None
        words = self.filter_text.casefold().split()
        until = self._until
        self._lines = [
            line for line in self._diary.lines if (until is None or line.seq <= until) and _has(line, words)
        ]
        self._fit()
        if reading is not None:
            place = next((n for n, line in enumerate(self._lines) if line.seq <= reading), 0)
            if self._row_of(place) != at:
                self.scroll_to(y=self._row_of(place), animate=False, force=True)

    def _fit(self) -> None:
        rows = len(self._lines) + len(self._full()) - 1 if self._lines else 0
        set_extent(self, Size(self.scrollable_content_region.width, rows))
        self.refresh()

    def on_resize(self) -> None:
        """Fit the new size."""
        self._fit()

    def on_focus(self) -> None:
        """The line under the cursor is told in full."""
        self._fit()

    def on_blur(self) -> None:
        """No line is."""
        super().on_blur()
        self._fit()

    # -- rows --------------------------------------------------------------------------------

    def _full(self) -> list[str]:
        """The rows of the line under the cursor: several where a person came to it and it is a long one."""
        line = self._lines[self._at()]
        if not self.has_focus or self._cursor is None:
            return [line.text]
        return wrapped(line.text, max(10, self.scrollable_content_region.width - self._lead(line)))

    @staticmethod
    def _lead(line: Line) -> int:
        return max(5, len(str(line.seq)) + 1) + 2

    def _row_of(self, line: int) -> int:
        return line if not self._lines or line <= self._at() else line + len(self._full()) - 1

    def _line_at(self, row: int) -> int:
        """The line that has the row; the last one for those behind it."""
        at, more = self._at(), len(self._full()) - 1
        line = row if row <= at else max(at, row - more)
        return min(line, len(self._lines) - 1)

    def render_line(self, y: int) -> Strip:
        """One row."""
        width, base = self.scrollable_content_region.width, self.style_of()
        row = y + self.scroll_offset.y
        if not self._lines or row >= len(self._lines) + len(self._full()) - 1:
            words = ""
            if not self._diary.lines:
                words = "nothing has happened yet"
            elif not self._lines and self.filter_text:
                words = "no event has these words · esc shows all"
            return plain(words if y == 0 else "", width, base)
        at = self._line_at(row)
        line = self._lines[at]
        look, glyph = event_look(line.kind)
        colour = self.style_of(look.css, partial=True) if look else None
        seq = f"{line.seq:>4} "
        room = max(0, width - len(seq) - 2)
        text = line.text
        if at == self._at() and len(rows := self._full()) > 1:
            text = rows[row - at]
            if row > at:
                seq, glyph = " " * len(seq), " "
        elif line.who and width < _NARROW and cell_len(text) > room:
            text = text.replace(line.who, f"'{cut(line.who[1:-1], _SHORT_NAME).replace(' …', '…')}'", 1)
        strip = Strip(
            [
                Segment(seq, self.style_of("events--seq")),
                Segment(f"{glyph} ", base + colour if colour else base),
                Segment(pad(text, room), base),
            ]
        ).adjust_cell_length(width, base)
        if self.has_focus and at == self._at():
            strip = strip.apply_style(self.style_of("events--cursor", partial=True))
        return strip

    # -- moving ------------------------------------------------------------------------------

    def _at(self) -> int:
        """The line of the cursor, or the next older one where its own is gone."""
        if self._cursor is None:
            return 0
        last = len(self._lines) - 1
        return next((n for n, line in enumerate(self._lines) if line.seq <= (self._cursor or 0)), last)

    def _go(self, at: int, stay: bool = False) -> None:
        """``stay``: on this line, also if it is the newest and others come."""
        if not self._lines:
            return
        at = max(0, min(at, len(self._lines) - 1))
        self._cursor = self._lines[at].seq if at or stay else None
        self._fit()
        self.scroll_to_region(Region(0, at, 1, len(self._full())), animate=False, force=True)
        self.refresh()

    def action_move(self, lines: int) -> None:
        """Move by ``lines``."""
        self._go(self._at() + lines)

    def action_move_pages(self, pages: int) -> None:
        """Move by ``pages`` less a line."""
        self.action_move(pages * max(1, self.scrollable_content_region.height - 1))

    def action_go(self, line: int) -> None:
        """Go to the newest (0) or the oldest (-1)."""
        self._go(line if line >= 0 else len(self._lines) - 1)

    def action_select(self) -> None:
        """Ask what the event under the cursor is about."""
        if self._lines:
            self._go(self._at(), stay=True)
            line = self._lines[self._at()]
            self.post_message(EventSelected(line.seq, line.about))

    def on_click(self, event: events.Click) -> None:
        """Ask what the event that was clicked is about."""
        offset = event.get_content_offset(self)
        row = -1 if offset is None else offset.y + self.scroll_offset.y
        if self._lines and 0 <= row < len(self._lines) + len(self._full()) - 1:
            self._go(self._line_at(row), stay=True)
            self.action_select()


def _has(line: Line, words: list[str]) -> bool:
    """All of ``words``, and none of those behind a ``-``; a state is one, too, as the legend calls it."""
    if not words:
        return True
    look = event_look(line.kind)[0]
    text = f"{line.seq} {line.text} {look.word if look else ''}".casefold()
    return all(
        word[1:] not in text if word.startswith("-") and len(word) > 1 else word in text for word in words
    )
