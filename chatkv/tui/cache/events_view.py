"""What happened lately, a sentence a line, newest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from chatkv.insight.captions import caption
from chatkv.insight.mirror import Mirror
from chatkv.insight.touched import Touched, touched
from chatkv.kvcache import events as kv
from chatkv.tui.cache.cells import pad, steady
from chatkv.tui.cache.event_looks import event_look
from chatkv.tui.cache.messages import EventSelected
from chatkv.tui.cache.states import LOOK_CLASSES, Look, look_css
from chatkv.tui.cache.tree_line import plain
from chatkv.tui.cache.typed_filter import TypedFilter
from chatkv.tui.cheap_layout import set_extent
from chatkv.tui.keys.current import bind


class Entry(NamedTuple):
    """A line."""

    seq: int
    look: Look | None
    glyph: str
    text: str
    about: Touched


class EventsView(TypedFilter, ScrollView, can_focus=True):
    """``1840 x node 11 evicted …``: the last events that have something to tell.

    Arrows or jk move, enter or a click posts ``EventSelected``, ``/`` leaves only the lines with these words.
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
        self._entries: deque[Entry] = deque(maxlen=keep)
        """Newest first."""
        self._lines: list[Entry] = []
        """What is shown of them, newest first."""
        self._cursor: int | None = None
        """``seq`` of the line the cursor is on; None: the newest, whichever that is."""
        self._until: int | None = None
        """``seq`` of the picture; what came later is not shown. None: no picture yet, all is."""

    def add(self, records: Iterable[kv.Event]) -> None:
        """Put these, in their order, before all others."""
        fresh = False
        for event in records:
            text = caption(event)
            if text is None:
                continue
            look, glyph = event_look(type(event))
            self._entries.appendleft(Entry(event.seq, look, glyph, text, touched(event)))
            fresh = True
        if fresh:
            self._gather()

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self._gather()

    def show(self, mirror: Mirror, focus_session: str | None) -> None:
        """The picture is of ``mirror.seq``: leave out what came later (the same for every session)."""
        if mirror.seq != self._until:
            self._until = mirror.seq
            newest = self._entries[0].seq if self._entries else 0
            if newest > mirror.seq or not self._lines or self._lines[0].seq != newest:
                self._gather()

    def filter_changed(self) -> None:
        """Only lines with all of these words are shown."""
        self._gather()
        self.border_title = Content(f"Events {steady(self.filter_words)}".rstrip())

    def _gather(self) -> None:
        """Choose the lines; who reads older ones goes on reading them."""
        at = self.scroll_offset.y
        reading = self._lines[at].seq if 0 < at < len(self._lines) else None
        words = self.filter_text.casefold().split()
        until = self._until
        self._lines = [
            entry
            for entry in self._entries
            if (until is None or entry.seq <= until)
            and all(word in f"{entry.seq} {entry.text}".casefold() for word in words)
        ]
        self._fit()
        if reading is not None:
            place = next((n for n, entry in enumerate(self._lines) if entry.seq <= reading), 0)
            if place != at:
                self.scroll_to(y=place, animate=False, force=True)

    def _fit(self) -> None:
        set_extent(self, Size(self.scrollable_content_region.width, len(self._lines)))
        self.refresh()

    def on_resize(self) -> None:
        """Fit the new size."""
        self._fit()

    def render_line(self, y: int) -> Strip:
        """One line."""
        width, base = self.scrollable_content_region.width, self.rich_style
        at = y + self.scroll_offset.y
        if at >= len(self._lines):
            words = ""
            if not self._entries:
                words = "nothing has happened yet"
            elif not self._lines and self.filter_text:
                words = "no event has these words · esc shows all"
            return plain(words if y == 0 else "", width, base)
        entry = self._lines[at]
        colour = self.get_component_rich_style(entry.look.css, partial=True) if entry.look else None
        seq = f"{entry.seq:>4} "
        strip = Strip(
            [
                Segment(seq, self.get_component_rich_style("events--seq")),
                Segment(f"{entry.glyph} ", base + colour if colour else base),
                Segment(pad(entry.text, max(0, width - len(seq) - 2)), base),
            ]
        ).adjust_cell_length(width, base)
        if self.has_focus and at == self._at():
            strip = strip.apply_style(self.get_component_rich_style("events--cursor", partial=True))
        return strip

    # -- moving ------------------------------------------------------------------------------

    def _at(self) -> int:
        """The line of the cursor, or the next older one where its own is gone."""
        if self._cursor is None:
            return 0
        last = len(self._lines) - 1
        return next((n for n, entry in enumerate(self._lines) if entry.seq <= (self._cursor or 0)), last)

    def _go(self, line: int) -> None:
        if not self._lines:
            return
        line = max(0, min(line, len(self._lines) - 1))
        self._cursor = self._lines[line].seq if line else None
        self.scroll_to_region(Region(0, line, 1, 1), animate=False, force=True)
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
            entry = self._lines[self._at()]
            self.post_message(EventSelected(entry.seq, entry.about))

    def on_click(self, event: events.Click) -> None:
        """Ask what the event that was clicked is about."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y + self.scroll_offset.y < len(self._lines):
            self._go(offset.y + self.scroll_offset.y)
            self.action_select()
