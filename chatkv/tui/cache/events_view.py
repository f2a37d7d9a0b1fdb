"""What happened lately, a sentence a line, newest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from chatkv.insight.captions import Names, caption, node_name
from chatkv.insight.mirror import Mirror
from chatkv.kvcache import events as kv
from chatkv.tui.cache.cells import pad
from chatkv.tui.cache.states import LOOK_CLASSES, Look, look_css
from chatkv.tui.cache.tree_line import plain

_LOOKS: dict[type[kv.Event], Look] = {
    kv.NodeStored: Look.NEW,
    kv.NodeExtended: Look.NEW,
    kv.PrefixReused: Look.REUSED,
    kv.NodeEvicted: Look.EVICTED,
    kv.NodeTrimmed: Look.EVICTED,
    kv.CacheCleared: Look.EVICTED,
    kv.PathLocked: Look.LOCKED,
    kv.PathUnlocked: Look.IDLE,
    kv.SlotsCopied: Look.COPIED,
    kv.NodePinned: Look.PINNED,
    kv.BlocksFreed: Look.FREE,
}
_SPLIT, _OTHER = "/", ">"


class Entry(NamedTuple):
    """A line."""

    seq: int
    look: Look | None
    glyph: str
    text: str


class EventsView(ScrollView, can_focus=True):
    """``1840 x node 11 evicted …``: the last events that have something to tell."""

    DEFAULT_CSS = f"""
    EventsView {{
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
    }}
    EventsView > .events--seq {{ color: $text-muted; }}
    {look_css("EventsView")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = LOOK_CLASSES | {"events--seq"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("home,g", "scroll_home", "Newest", show=False),
        Binding("end,G", "scroll_end", "Oldest", show=False),
    ]

    def __init__(self, *, keep: int = 500, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Events"
        self._entries: deque[Entry] = deque(maxlen=keep)
        """Newest first."""
        self._until: int | None = None
        """``seq`` of the picture; what came later is not shown. None: no picture yet, all is."""
        self._later = 0
        """How many of the newest entries are later than the picture."""
        self.names: Names = node_name
        """What a caption calls a node; applied when an event is added."""

    def add(self, events: Iterable[kv.Event]) -> None:
        """Put these, in their order, before all others."""
        fresh = 0
        for event in events:
            text = caption(event, self.names)
            if text is None:
                continue
            look = _LOOKS.get(type(event))
            glyph = look.glyph if look else _SPLIT if isinstance(event, kv.NodeSplit) else _OTHER
            self._entries.appendleft(Entry(event.seq, look, glyph, text))
            fresh += 1
        if fresh:
            self._resize_lines(fresh)

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self._resize_lines(0)

    def show(self, mirror: Mirror, focus_session: str | None) -> None:
        """The picture is of ``mirror.seq``: leave out what came later (the same for every session)."""
        if mirror.seq != self._until:
            self._until = mirror.seq
            if self._count_later() != self._later:
                self._resize_lines(0)

    def _count_later(self) -> int:
        if self._until is None:
            return 0
        return next((at for at, e in enumerate(self._entries) if e.seq <= self._until), len(self._entries))

    def _resize_lines(self, fresh: int) -> None:
        self._later = self._count_later()
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._entries) - self._later)
        if fresh and self.scroll_offset.y:
            # Who reads older lines goes on reading them.
            self.scroll_to(y=self.scroll_offset.y + fresh, animate=False, force=True)
        self.refresh()

    def on_resize(self) -> None:
        """Fit the new size."""
        self._resize_lines(0)

    def render_line(self, y: int) -> Strip:
        """One line."""
        width, base = self.scrollable_content_region.width, self.rich_style
        at = y + self.scroll_offset.y + self._later
        if at >= len(self._entries):
            return plain("nothing has happened yet" if y == 0 and not self._entries else "", width, base)
        entry = self._entries[at]
        colour = self.get_component_rich_style(entry.look.css, partial=True) if entry.look else None
        seq = f"{entry.seq:>4} "
        return Strip(
            [
                Segment(seq, self.get_component_rich_style("events--seq")),
                Segment(f"{entry.glyph} ", base + colour if colour else base),
                Segment(pad(entry.text, max(0, width - len(seq) - 2)), base),
            ]
        ).adjust_cell_length(width, base)
