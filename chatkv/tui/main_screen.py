"""The one screen: arranges the panes for the terminal's size, and draws what the desk knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import DescendantFocus, Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from chatkv.tui.cache.legend import Legend
from chatkv.tui.cache.messages import BlockSelected, NodeSelected
from chatkv.tui.cache.status import StatusLine
from chatkv.tui.cache_column import CacheColumn
from chatkv.tui.chat.pane import ChatPane
from chatkv.tui.chat.prompt import Prompt
from chatkv.tui.chip_row import Chip, ChipRow
from chatkv.tui.desk import Desk
from chatkv.tui.header import Header, LoadLine
from chatkv.tui.layout import PANES, SMALLEST, Arrangement, arrangement
from chatkv.tui.sessions.item import items
from chatkv.tui.sessions.panel import SessionPanel
from chatkv.tui.sessions.session import Session
from chatkv.tui.status import status_of

FRAME_S = 1 / 15
"""Panes are repainted at most this often, however many steps the engine makes."""


class MainScreen(Screen[None]):
    """Keys that act on sessions are the app's actions; those that move or arrange panes are here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+n", "app.new", "New"),
        Binding("ctrl+s", "app.sessions", "Sessions"),
        Binding("ctrl+o", "app.fork", "Fork"),
        Binding("f2", "app.rename", "Rename"),
        Binding("escape", "back", "Stop"),
        Binding("ctrl+r", "app.regenerate", "Again"),
        Binding("f6", "pane(1)", "Pane", priority=True),
        Binding("shift+f6", "pane(-1)", show=False, priority=True),
        Binding("z", "zoom", "Zoom"),
        Binding("space", "freeze", "Pause"),
        Binding("x", "app.export", "Export"),
        Binding("i", "prompt", show=False),
        Binding("f1", "app.help", "Help"),
        Binding("question_mark", "app.help", show=False),
        Binding("ctrl+c", "app.copy_selection", show=False),
        *(Binding(f"alt+{n}", f"app.switch({n})", show=False) for n in range(1, 10)),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self._arrangement = Arrangement.TWO
        self._zoomed = False
        self._at = "chat"
        """The pane that one-pane arrangements show."""
        self._dirty = True

    def compose(self) -> ComposeResult:
        """Its parts."""
        yield Static(id="too-small", markup=False)
        with Horizontal(id="top"):
            yield Header(id="header")
            yield ChipRow(id="chips")
        yield LoadLine(id="loading")
        yield ChipRow(id="tabs")
        with Horizontal(id="body"):
            yield SessionPanel(id="sessions")
            yield ChatPane(id="chat")
            yield CacheColumn(id="cache")
        yield Prompt(id="prompt")
        yield Legend(id="legend")
        yield StatusLine(id="status")
        yield Footer()

    def on_mount(self) -> None:
        """The first frame is empty; the app fills it once it is up."""
        self.prompt.focus()
        self.cache.name_sessions(self._name_of)
        self.set_interval(FRAME_S, self._frame)

    # Parts

    @property
    def prompt(self) -> Prompt:
        """Where the person types."""
        return self.query_one(Prompt)

    @property
    def chat(self) -> ChatPane:
        """The conversation."""
        return self.query_one(ChatPane)

    @property
    def cache(self) -> CacheColumn:
        """Everything about the cache."""
        return self.query_one(CacheColumn)

    # Drawing

    def changed(self) -> None:
        """Something the desk knows has changed: draw it with the next frame."""
        self._dirty = True

    async def show_session(self, session: Session) -> None:
        """Put ``session`` on the screen, and its draft into the prompt."""
        await self.chat.show(session)
        self.prompt.load(session.draft)
        self.prompt.set_history(session.sent)
        self.desk.feed.dirty = True
        self.changed()

    async def _frame(self) -> None:
        desk = self.desk
        if not (self._dirty or desk.feed.dirty or desk.book.running):
            return
        self._dirty = False
        await self.chat.sync()
        self._draw_lines()
        if desk.feed.dirty:
            desk.feed.dirty = False
            self._draw_cache()

    def _draw_lines(self) -> None:
        desk, book = self.desk, self.desk.book
        listed = items(book.sessions, book.current)
        self.query_one("#chips", ChipRow).show([item.chip() for item in listed])
        self.query_one(SessionPanel).show(listed)
        self.query_one(Header).show(desk.ready, self._arrangement is Arrangement.ONE)
        self.query_one(LoadLine).show(desk.loading, desk.ready is not None, desk.failed)
        self.query_one(StatusLine).show(status_of(desk))
        self.refresh_bindings()

    def _draw_cache(self) -> None:
        feed = self.desk.feed
        self.cache.show(feed, self.desk.book.current.key)
        self.query_one(Legend).show(feed.mirror.seq, feed.latest if feed.frozen else None)

    def engine_ready(self) -> None:
        """From now on tokens can be read as text, and answers are headed by the model's name."""
        if self.desk.ready is not None:
            self.chat.name_model(self.desk.ready.model)
            self.cache.engine_ready(self.desk.ready, self.desk.decode)

    def _name_of(self, key: str) -> str:
        session = self.desk.book.by_key(key)
        return session.name if session else key

    def follow(self) -> None:
        """The person has asked: the end of the conversation is what they want to see."""
        if self.chat.view is not None:
            self.chat.view.anchor()
        self.changed()

    # Arranging

    def on_resize(self, event: Resize) -> None:
        """Any size at any time."""
        self._arrange(event.size.width, event.size.height)

    def _arrange(self, width: int, height: int) -> None:
        self._arrangement = arrangement(width, height)
        for other in Arrangement:
            self.set_class(other is self._arrangement, other.value)
        self.set_class(height < 24, "-short")
        self.set_class(height < 18, "-shorter")
        need = "x".join(map(str, SMALLEST))
        self.query_one("#too-small", Static).update(
            f"Terminal too small: {width}x{height}.\nchatkv needs {need} or more.\nctrl+q quits."
        )
        self._show_pane()

    @property
    def one_pane(self) -> bool:
        """True where a single pane fills the body."""
        return self._zoomed or self._arrangement is Arrangement.ONE

    def _show_pane(self) -> None:
        self.set_class(self.one_pane, "-single")
        for pane in PANES:
            self.set_class(self.one_pane and pane == self._at, f"-at-{pane}")
        self.query_one("#tabs", ChipRow).show(
            [Chip(pane, title, pane == self._at) for pane, title in PANES.items()]
        )
        self.changed()

    def go_to(self, pane: str) -> None:
        """Show ``pane`` (in one-pane arrangements) and focus it; with the chat, the prompt is focused."""
        self._at = pane
        self._show_pane()
        if pane == "chat":
            self.prompt.focus()
        elif (widget := self.query_one(f"#{pane}")).focusable:
            widget.focus()
        else:
            self.set_focus(None)
        self.refresh_bindings()

    def _stops(self) -> list[Widget]:
        """What f6 walks through: the panes on the screen, and the prompt."""
        view = self.chat.view
        candidates: Iterable[Widget | None] = (
            self.prompt,
            self.query_one(SessionPanel),
            view,
            *(self.query_one(f"#{pane}") for pane in PANES if pane != "chat"),
        )
        return [w for w in candidates if w is not None and w.focusable and w.region.area > 0]

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Zoom follows the focus."""
        if not self.one_pane:
            pane = next((w.id for w in event.widget.ancestors_with_self if w.id in PANES), None)
            if pane is not None:
                self._at = pane
        self.refresh_bindings()

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that type in the prompt are not offered there; stop only while there is something to stop."""
        typing = isinstance(self.focused, Prompt)
        if action in ("zoom", "freeze", "prompt"):
            return not typing
        return True

    def action_back(self) -> None:
        """Escape: stop the answer; else drop an edit; else undo the zoom; else between prompt and chat."""
        book = self.desk.book
        if book.current.running:
            self.desk.stop(book.current)
        elif book.current.editing is not None:
            book.current.editing = None
            self.prompt.load("")
        elif not isinstance(self.focused, Prompt):
            if self.has_class("-inspecting"):
                self.remove_class("-inspecting")
            elif self.one_pane and self._at != "chat":
                self._zoomed = False
                self.go_to("chat")
            else:
                self.prompt.focus()
        elif self.chat.view is not None:
            self.chat.view.focus()
        self.changed()

    def action_pane(self, by: int) -> None:
        """To the next or previous pane."""
        if self.one_pane:
            panes = list(PANES)
            self.go_to(panes[(panes.index(self._at) + by) % len(panes)])
            return
        stops = self._stops()
        at = stops.index(self.focused) if self.focused in stops else -1 if by > 0 else 0
        stops[(at + by) % len(stops)].focus()

    def action_zoom(self) -> None:
        """The focused pane fills the body, or goes back to its place."""
        self._zoomed = not self._zoomed
        self._show_pane()

    def action_freeze(self) -> None:
        """Hold the picture still; the engine goes on and nothing is lost."""
        feed = self.desk.feed
        feed.freeze(not feed.frozen)
        self.changed()

    def action_prompt(self) -> None:
        """Back to typing."""
        if self.one_pane:
            self._zoomed = False
            self.go_to("chat")
        self.prompt.focus()

    # What the parts say

    @on(ChipRow.Picked, "#tabs")
    def _tab(self, event: ChipRow.Picked) -> None:
        event.stop()
        self.go_to(event.key)

    @on(NodeSelected)
    @on(BlockSelected)
    def _inspect(self, event: NodeSelected | BlockSelected) -> None:
        event.stop()
        self.cache.inspect(event)
        if self.one_pane:
            self.go_to("node")
        else:
            self.add_class("-inspecting")
