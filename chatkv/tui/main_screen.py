"""The one screen: draws what the desk knows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Paste

from chatkv.text import one_line
from chatkv.tui.cache.caption_line import CaptionLine
from chatkv.tui.cache.glance import glance
from chatkv.tui.cache.legend import Legend
from chatkv.tui.cache.messages import (
    BlockSelected,
    MapWanted,
    NodeSelected,
    NodeWanted,
    PinWanted,
    TreeWanted,
)
from chatkv.tui.cache.status import StatusLine
from chatkv.tui.cache_column import CacheColumn
from chatkv.tui.chat.choices import Choices
from chatkv.tui.chat.pane import ChatPane
from chatkv.tui.chat.prompt import Prompt
from chatkv.tui.chip_row import ChipRow
from chatkv.tui.desk import Desk
from chatkv.tui.header import Header, LoadLine, kept
from chatkv.tui.key_line import KeyLine
from chatkv.tui.keys.current import bind
from chatkv.tui.layout import Arrangement
from chatkv.tui.pace import Pace
from chatkv.tui.pane_area import PaneArea
from chatkv.tui.quick_compositor import QuickCompositor
from chatkv.tui.remembered import Remembered
from chatkv.tui.sessions.item import chips, items
from chatkv.tui.sessions.panel import SessionPanel
from chatkv.tui.sessions.session import Session
from chatkv.tui.sized_screen import SizedScreen
from chatkv.tui.status import context_of, doing_of, status_of

DRAW_S = 1 / 12
CACHE_EVERY = 3
"""The chat is drawn at most this often, the cache panes each third time and where a request begins or the
tree has another shape, however many steps the engine makes. Both in one frame: it is frames that cost, and
what they cost the engine does not get."""
SHARE, SLOWEST_S = 0.04, 0.2
"""While answers run: of a core, what the screen may take, and how long it waits for that at most (then until
the next time that it would draw: four pictures a second at the least)."""
GAUGE_ROOM = 32
"""Cells that the gauge of the context takes, with what stands around it."""
GATHER_S = 0.003
"""Until all widgets that were drawn have said so."""
CAPTIONS = "captions"
"""Under this name it is remembered whether they are ``on`` or ``off``."""
PANE_ACTIONS = frozenset(
    ("zoom", "hide", "list_panes", "move_line", "grow", "usual_sizes", "freeze", "prompt", "captions")
)
"""Their keys are letters in the prompt, or edit what is typed there."""


class MainScreen(SizedScreen):
    """Keys that act on sessions are the app's actions; those that move or arrange panes are here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("new", "app.new", "New"),
        bind("sessions", "app.sessions", "Sessions"),
        bind("fork", "app.fork", "Fork"),
        bind("search", "app.search", priority=True),
        bind("back", "back", "Stop"),
        bind("help", "app.help", "Help"),  # the app's own goes first; this is its place in the footer
        bind("rename", "app.rename", "Rename"),
        bind("again", "app.regenerate", "Again"),
        bind("next_pane", "pane(1)", "Pane", priority=True),
        bind("previous_pane", "pane(-1)", priority=True),
        bind("pane.zoom", "zoom", "Zoom"),
        bind("pane.hide", "hide", "Hide"),
        bind("pane.list", "list_panes", "Panes"),
        *(bind(f"pane.line_{way}", f"move_line('{way}')") for way in ("left", "right", "up", "down")),
        bind("pane.taller", "grow(0, 1)"),
        bind("pane.lower", "grow(0, -1)"),
        bind("pane.wider", "grow(1, 0)"),
        bind("pane.narrower", "grow(-1, 0)"),
        bind("pane.usual_sizes", "usual_sizes"),
        bind("pane.pause", "freeze", "Pause"),
        bind("pane.captions", "captions"),
        bind("pane.export", "app.export", "Export"),
        bind("pane.write", "prompt"),
        bind("pane.help", "app.help"),
        bind("copy", "app.copy_selection"),
        *(bind(f"go_{n}", f"app.switch({n})") for n in range(1, 10)),
    ]

    def __init__(self, desk: Desk, remembered: Remembered) -> None:
        super().__init__(remembered)
        self._compositor = QuickCompositor()
        self.desk = desk
        self.clock: Callable[[], float] = time.time
        """Wall time, as the events are stamped with."""
        self.catch_up: Callable[[], None] = lambda: None
        """Has the desk take in what the engine has said; the app's."""
        self._dirty = True
        self._drawings = 0
        self._shape_drawn = self._shape()
        self._pace = Pace(SHARE, SLOWEST_S)
        self._drawn = False
        """Something was drawn, or wanted to be, since the last frame."""
        self._gathering = 0
        """Not 0: what is being drawn now comes into one frame, when it is complete."""

    def compose(self) -> ComposeResult:
        """Its parts."""
        with Horizontal(id="top"):
            yield Header(id="header")
            yield ChipRow(id="chips")
        yield LoadLine(id="loading")
        yield ChipRow(id="tabs")
        with PaneArea(planner=self.plan_body, id="body"):
            yield SessionPanel(id="sessions")
            yield ChatPane(id="chat")
            yield CacheColumn(planner=self.plan_cache, id="cache")
        yield Choices(id="choices")
        yield Prompt(id="prompt")
        yield CaptionLine(id="caption")
        yield Legend(id="legend")
        yield StatusLine(id="status")
        yield KeyLine()

    def on_mount(self) -> None:
        """The first frame is empty; the app fills it once it is up."""
        self._set_captions()
        self.prompt.focus()
        self.cache.name_sessions(self._name_of)
        self.caption.session_name = self._name_of
        self.set_interval(DRAW_S, self._draw)

    # Drawing

    def changed(self) -> None:
        """Something the desk knows has changed: draw it with the next frame."""
        self._dirty = True

    @cached_property
    def caption(self) -> CaptionLine:
        """What has just happened, in a sentence."""
        return self.query_one(CaptionLine)

    async def show_session(self, session: Session) -> None:
        """Put ``session`` on the screen, and its draft into the prompt."""
        # The prompt first: what is typed while the chat is being drawn already belongs to this session.
        self.prompt.session_key = session.key
        self.prompt.load(session.draft)
        self.prompt.set_history(session.sent)
        self.chat.show_context(context_of(self.desk))
        async with self._one_frame():
            self._drawn = True
            await self.chat.show(session)
        self.desk.feed.dirty = True
        self.changed()

    @asynccontextmanager
    async def _one_frame(self) -> AsyncIterator[None]:
        """What is drawn in here comes into one frame, at once when it is complete."""
        self._gathering += 1
        try:
            yield
            if self._drawn:
                # Each widget tells the screen by a message of its own that it has changed.
                await asyncio.sleep(GATHER_S)
        finally:
            self._gathering -= 1
            if self._drawn and not self._gathering:
                self._drawn = False
                # Textual would do it with its next tick: up to a sixtieth of a second later.
                self._on_timer_update()

    async def _draw(self) -> None:
        self.catch_up()
        self.desk.feed.go_on()
        if not self._pace.due() and self.desk.book.running:
            return
        async with self._one_frame():
            await self.draw_chat()
            self._drawings += 1
            if self._drawings % CACHE_EVERY == 0 or self._shape() != self._shape_drawn:
                self.draw_cache()

    def _on_timer_update(self) -> None:
        if self._gathering:
            # One frame for all of it, in a moment. What waits for the frame goes on waiting.
            self._update_timer.pause()
            self._drawn = True
        else:
            super()._on_timer_update()

    async def draw_chat(self) -> None:
        """Bring the conversation and the lines in line with the desk, if anything changed."""
        self.catch_up()
        if self._dirty or self.desk.book.running:
            self._dirty, self._drawn = False, True
            current = self.desk.book.current
            if (request := current.stands_at) is not None:
                self.desk.feed.stand(current.key, request)
            self.chat.show_context(context_of(self.desk))
            if current.running is not None:
                current.running.doing = doing_of(self.desk, current.running)
            await self.chat.sync()
            self._draw_lines()

    def draw_cache(self) -> None:
        """Bring the cache panes in line with the feed, if it changed."""
        feed, now = self.desk.feed, self.clock()
        self._shape_drawn = self._shape()
        feed.fade(now)
        if feed.dirty:
            feed.dirty, self._drawn = False, True
            recent = feed.take_recent()
            self.cache.tree_view.number_sessions(
                {session.key: number for number, session in enumerate(self.desk.book.sessions, 1)}
            )
            self.cache.show(feed, self.desk.book.current.key, recent)
            self.caption.hear(recent, feed.mirror, now)
            self._legend.show(feed.mirror.seq, feed.latest if feed.frozen else None)
            self._show_glance()
        if not feed.frozen:
            self.caption.tick(now)

    def _show_glance(self) -> None:
        """Where the conversation fills the screen its lower border says how full the cache is."""
        room = self.chat.size.width - GAUGE_ROOM if self.one_pane and self.at == "chat" else 0
        self.chat.show_glance(glance(self.desk.feed.mirror, room) if room > 0 else Content(""))

    def _shape(self) -> tuple[int, int]:
        """Changes with what people wait for: what is reused, split, evicted. Blocks fill up besides."""
        mirror = self.desk.feed.mirror
        return mirror.epoch, mirror.structure_version

    @cached_property
    def _legend(self) -> Legend:
        return self.query_one(Legend)

    @cached_property
    def _line_widgets(self) -> tuple[ChipRow, SessionPanel, Header, LoadLine, StatusLine]:
        find = self.query_one
        return find("#chips", ChipRow), find(SessionPanel), find(Header), find(LoadLine), find(StatusLine)

    def _draw_lines(self) -> None:
        desk, book = self.desk, self.desk.book
        chip_row, panel, header, loading, status = self._line_widgets
        listed = items(enumerate(book.sessions, 1), book.current)
        chip_row.show(chips(listed, chip_row.content_size.width))
        panel.show(tuple(listed[number - 1] for number, _ in book.listed()), book.order)
        header.show(desk.ready, self.arrangement is Arrangement.ONE, kept(book))
        loading.show(desk.loading, desk.ready is not None, desk.failed)
        status.show(status_of(desk))
        self._show_glance()

    def engine_ready(self) -> None:
        """From now on tokens can be read as text, and answers are headed by the model's name."""
        if self.desk.ready is not None:
            self.chat.name_model(self.desk.ready.model)
            self.cache.engine_ready(self.desk.ready, self.desk.decode)
            for note in self.desk.ready.notes:
                self.notify(one_line(note, 400), markup=False, timeout=8)

    def _name_of(self, key: str) -> str:
        session = self.desk.book.by_key(key)
        return session.name if session else key

    async def follow(self) -> None:
        """The person has asked: the end of the conversation is what they want to see."""
        if self.chat.view is not None:
            await self.chat.view.follow()
        self.changed()

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that type in the prompt are not offered there; stop only while there is something to stop."""
        typing = isinstance(self.focused, Prompt)
        if action == "zoom" and self.arrangement is Arrangement.ONE:
            return False
        if action in PANE_ACTIONS:
            return not typing
        if action == "tab":
            return len(self.shown if self.one_pane else self.stack_of(self.at)) > 1
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
            view = self.chat.view
            selected = view is not None and view.has_focus and view.deselect()
            if selected or self.end_inspection():
                pass
            elif self.kept.zoomed:
                self.unzoom()
            elif self.one_pane and self.at != "chat" and "chat" in self.shown:
                self.go_to("chat")
            else:
                self.set_focus(self.prompt)
        elif self.one_pane and self.at != "chat":
            self.go_to(self.at)
        elif pane := "chat" if "chat" in self.seen else next(iter(self.seen), ""):
            self.focus_in(pane)
        self.changed()

    def action_freeze(self) -> None:
        """Hold the picture still; the engine goes on and nothing is lost."""
        feed = self.desk.feed
        feed.freeze(not feed.frozen)
        self.changed()

    def action_captions(self) -> None:
        """Tell in a line what has just happened, or no longer."""
        self.remembered.set(CAPTIONS, "off" if self.caption.display else "on")
        self._set_captions()

    def _set_captions(self) -> None:
        """As remembered; who never chose has them where there are rows enough (``app.tcss``)."""
        chosen = self.remembered.get(CAPTIONS, "")
        self.set_class(chosen == "on", "-captions")
        self.set_class(chosen == "off", "-no-captions")

    # What the parts say

    def on_paste(self, event: Paste) -> None:
        """No pane takes a paste: whoever pastes means the prompt."""
        event.stop()
        self.action_prompt()
        self.prompt.post_message(event)

    @on(Prompt.Offered)
    def _offered(self, event: Prompt.Offered) -> None:
        event.stop()
        self.query_one(Choices).show(event.choices, event.at)

    @on(Choices.Picked)
    def _choice(self, event: Choices.Picked) -> None:
        event.stop()
        self.prompt.pick(event.index)

    @on(NodeSelected)
    @on(BlockSelected)
    def _inspect(self, event: NodeSelected | BlockSelected) -> None:
        event.stop()
        self.cache.inspect(event)
        self.inspect_pane()

    @on(TreeWanted)
    def _block_in_tree(self, event: TreeWanted) -> None:
        event.stop()
        owner = self.cache.owner(event.block)
        if owner is None:
            self.notify(f"block {event.block} is in no node of the tree: it is free, or one request's own")
        else:
            self._go_to_node(owner)

    @on(NodeWanted)
    def _node_in_tree(self, event: NodeWanted) -> None:
        event.stop()
        self._go_to_node(event.node)

    def _go_to_node(self, node: int) -> None:
        tree = self.cache.tree_view
        if not tree.go_to(node):
            self.notify(f"node {node} is not in the tree any more")
            return
        tree.light((node,))
        self.go_to("tree")
        # A pane that was hidden has its size only now.
        self.call_after_refresh(tree.go_to, node)

    @on(MapWanted)
    def _blocks_in_map(self, event: MapWanted) -> None:
        event.stop()
        if not event.blocks:
            self.notify(f"{event.what} has no blocks")
            return
        self.cache.blocks.light(event.blocks)
        self.go_to("blocks")
        self.call_after_refresh(self.cache.blocks.go_to, min(event.blocks))

    @on(PinWanted)
    def _pin(self, event: PinWanted) -> None:
        event.stop()
        self.desk.pin(event.node, event.pinned)
