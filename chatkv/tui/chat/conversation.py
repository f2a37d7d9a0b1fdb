"""One session's messages on the screen: a window of them, and the running answer at the end."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.events import Click
from textual.geometry import Size
from textual.layout import DockArrangeResult
from textual.message import Message as TextualMessage
from textual.widget import Widget
from textual.widgets import Static

from chatkv.chat.settings import describe
from chatkv.chat.tree import Message
from chatkv.tui.chat.looks import MessageLooks
from chatkv.tui.chat.message import MessageList, MessageView
from chatkv.tui.chat.messages import AnswerView, Colours, NoticeView, SystemView, UserView
from chatkv.tui.chat.version import version
from chatkv.tui.chat.who import made_by
from chatkv.tui.keys.current import bind, hint
from chatkv.tui.sessions.running import Running
from chatkv.tui.sessions.session import Notice, Session

WINDOW = 24
"""Messages mounted at first, and more at each "earlier"."""
KEPT_MOUNTED = 3 * WINDOW
"""Going up beyond these, or staying there while more come, the newest ones are let go."""


class More(Static):
    """A line at an end of the window that mounts more of the conversation there."""

    class Wanted(TextualMessage):
        """Clicked."""

        def __init__(self, line: More) -> None:
            self.line = line
            super().__init__()

    def on_click(self, event: Click) -> None:
        """Mount more."""
        event.stop()
        self.post_message(self.Wanted(self))


class ConversationView(VerticalScroll):
    """Follows its session: ``sync`` brings the widgets in line with it, whatever changed."""

    class EndSeen(TextualMessage):
        """Scrolled to the end of what is there, or away from it."""

    DEFAULT_CSS = """
    ConversationView { padding: 0; scrollbar-size-vertical: 1; }
    ConversationView > .list { height: auto; min-height: 100%; }
    ConversationView More { width: 1fr; text-align: center; color: $text-muted; height: 1; }
    ConversationView More:hover { color: $accent; }
    ConversationView .empty { color: $text-muted; padding: 1 2; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("move.down", "scroll_down"),
        bind("move.up", "scroll_up"),
        bind("move.first", "top"),
        bind("move.last", "end"),
        bind("chat.next", "select(1)"),
        bind("chat.previous", "select(-1)"),
        bind("chat.older_version", "app.sibling(-1)"),
        bind("chat.newer_version", "app.sibling(1)"),
        bind("chat.write", "screen.prompt"),
        bind("chat.copy", "app.copy_answer", "Copy"),
        bind("chat.copy_code", "app.copy_code", "Code"),
        bind("chat.answers", "app.answers"),
        bind("chat.edit", "app.edit", "Edit"),
        bind("chat.thinking", "fold"),
        bind("chat.sideways_left", "sideways(-1)"),
        bind("chat.sideways_right", "sideways(1)"),
        bind("chat.verify", "app.verify", "Verify"),
    ]

    def __init__(self, session: Session, who: str, welcome: str, looks: MessageLooks) -> None:
        super().__init__()
        self.session = session
        self.who = who
        self._views: list[MessageView] = []
        self._live: AnswerView | None = None
        self._live_of: Running | None = None
        self._notice: Notice | None = None
        self._notice_view: NoticeView | None = None
        self._first: int | None = None
        self._end: int | None = None
        """The window is ``path[first:end]``; None: up to the newest message."""
        self._unfolded: set[str | Running] = set()
        """Those answers that are not mounted of which was seen what was thought, by their ids."""
        self.selected: str | None = None
        """Id of the message that keys act on; None: the newest."""
        # At least as tall as the view: a followed view puts shorter content at the bottom.
        self._list = MessageList(looks)
        self._earlier = More("", markup=False)
        self._later = More("", markup=False)
        self._system = SystemView("system")
        self._settings = SystemView("set")
        self._empty = Static(welcome, classes="empty", markup=False)
        self._head: tuple[Widget, ...] = (self._earlier, self._system, self._settings, self._empty)
        """Above the messages, in this order; mounted when there is first something in them to see."""
        self._lock = asyncio.Lock()
        self._was_at_end = True

    def compose(self) -> ComposeResult:
        """What there is to see at first, mounted at once."""
        path = self.session.conversation.path()
        self._first = max(0, len(path) - WINDOW)
        self._views = [self._view(message) for message in path[self._first :]]
        with self._list:
            if not path:
                yield self._empty
            yield from self._views

    def on_mount(self) -> None:
        """Follow the end until the person scrolls up."""
        self.anchor()

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        """See the base class."""
        # Textual counts from it where the end is, and would learn it only after that: a frame too late.
        self._container_size = self._container_size.with_height(size.height + self.scrollbar_size_horizontal)
        return super().arrange(size, optimal)

    async def _have(self, widget: Widget, wanted: bool) -> None:
        """Let one of the head, or the line under all messages, be seen or not."""
        if wanted and widget.parent is None:
            if widget is self._later:
                await self.mount(widget)
            else:
                await self._mount_at(self._heads(self._head.index(widget)), widget)
        widget.display = wanted

    async def _mount_at(self, index: int, *widgets: Widget) -> None:
        """``index``: the place in the list that the first of them gets."""
        before = index if index < len(self._list.children) else None
        await self._list.mount(*widgets, before=before)

    def _heads(self, end: int | None = None) -> int:
        """How many of the first ``end`` of the head are mounted; None: of all."""
        return sum(each.parent is not None for each in self._head[:end])

    @property
    def at_end(self) -> bool:
        """True where nothing lies below what is seen."""
        return self.scroll_offset.y >= self.max_scroll_y - 1

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Tell when the end comes into sight, or leaves it."""
        super().watch_scroll_y(old_value, new_value)
        if self.at_end != self._was_at_end:
            self._was_at_end = self.at_end
            self.post_message(self.EndSeen())

    async def sync(self) -> None:
        """Bring the widgets in line with the session. Cheap where nothing changed."""
        async with self._lock:
            if not self._list.is_attached:
                return
            path = self.session.conversation.path()
            await self._settle_live(path)
            await self._match(path)
            self._sync_notes()
            await self._sync_notice()
            await self._sync_live()
            await self._sync_lines(path)

    async def show_earlier(self) -> None:
        """Mount up to ``WINDOW`` more messages above; what is seen stays where it is."""
        async with self._lock:
            first = self._first or 0
            if first == 0:
                return
            path = self.session.conversation.path()
            start = max(0, first - WINDOW)
            if len(self._views) >= KEPT_MOUNTED:
                gone, self._views[-WINDOW:] = self._views[-WINDOW:], []
                self._end = first + len(self._views)
                await self._let_go(gone)
                await self._drop_live()
            views = [self._view(message) for message in path[start:first]]
            self._first = start
            self._views[:0] = views
            below = self.max_scroll_y - self.scroll_offset.y
            await self._mount_at(self._heads(), *views)
            await self._sync_lines(path)

            def keep_place() -> None:
                self.scroll_to(y=self.max_scroll_y - below, animate=False)

            self.call_after_refresh(keep_place)

    async def show_later(self) -> None:
        """Mount up to ``WINDOW`` more messages below."""
        if self._end is not None:
            self._end += WINDOW
            await self.sync()

    async def reveal(self, id: str, words: str = "") -> None:
        """Select message ``id`` of the path and bring it into view, and of it what has ``words``."""
        path = self.session.conversation.path()
        at = next((index for index, message in enumerate(path) if message.id == id), None)
        if at is None:
            return
        if not any(view.message_id == id for view in self._views):
            self._first = max(0, at - WINDOW // 2)
            self._end = self._first + WINDOW if self._first + WINDOW < len(path) else None
        await self.sync()
        self._select(id, words)

    def _select(self, id: str | None, words: str = "") -> None:
        self.selected = id
        for view in self._views:
            view.select(view.message_id == id is not None)
            if view.message_id == id is not None:
                # Whoever looks at one message does not follow the end.
                self.anchor(False)
                self.call_after_refresh(self._bring, view, words)

    def _bring(self, view: MessageView, words: str, tries: int = 8) -> None:
        """The message at the top; where that hides the words, they are selected, and in the middle."""
        if tries and not all(each.laid_out for each in self._views):
            # One that was not on the screen when something was said in it has its new height only later.
            self.call_after_refresh(self._bring, view, words, tries - 1)
            return
        if not view.is_attached:
            return
        row = view.find(words) if words else 0
        hidden = row >= self.size.height
        top = view.virtual_region.y + (row - self.size.height // 2 if hidden else 0)
        self.scroll_to(y=top, animate=False)

    async def action_select(self, by: int) -> None:
        """Select the next or previous message; from none, the newest that is mounted."""
        if by < 0 and self._views and self._views[0].message_id == self.selected:
            await self.show_earlier()
        if by > 0 and self._views and self._views[-1].message_id == self.selected:
            await self.show_later()
        ids = [view.message_id for view in self._views]
        if not ids:
            return
        at = ids.index(self.selected) + by if self.selected in ids else len(ids) - 1
        self._select(ids[max(0, min(at, len(ids) - 1))])

    def deselect(self) -> bool:
        """Keys act on the newest again; False where they did already."""
        if self.selected is None:
            return False
        self._select(None)
        return True

    @on(MessageView.Clicked)
    def _on_message_clicked(self, event: MessageView.Clicked) -> None:
        event.stop()
        self._select(None if event.id == self.selected else event.id)

    async def follow(self) -> None:
        """Show the newest message, and what comes."""
        self._select(None)
        if self._end is not None:
            self._first = self._end = None
        self.anchor()
        await self.sync()

    @on(More.Wanted)
    async def _on_more(self, event: More.Wanted) -> None:
        event.stop()
        await (self.show_earlier() if event.line is self._earlier else self.show_later())

    async def action_top(self) -> None:
        """To the first mounted message; pressed there, more are mounted."""
        if self.scroll_offset.y <= 0:
            await self.show_earlier()
        self.scroll_home(animate=False)

    async def action_end(self) -> None:
        """To the newest line, and follow it again."""
        await self.follow()

    def name_model(self, who: str) -> None:
        """Answers that come are headed by ``who``, and those that are kept without their model's name."""
        self.who = who
        said = {message.id: message for message in self.session.conversation.path()}
        for view in self._views:
            if isinstance(view, AnswerView) and view.message_id in said:
                view.head(made_by(said[view.message_id], who))
        if self._live is not None:
            self._live.head(who)

    def _view(self, message: Message) -> MessageView:
        if message.role == "assistant":
            who, colours = made_by(message, self.who), Colours.of(self.app)
            answer = AnswerView(who, colours, message, self._siblings(message))
            answer.unfold(message.id in self._unfolded)
            view: MessageView = answer
        else:
            who = "you" if message.role == "user" else "system"
            view = UserView(message.text, message.id, who, self._siblings(message))
        if message.id == self.selected:
            view.select(True)
        return view

    def _siblings(self, message: Message) -> str:
        ids = [m.id for m in self.session.conversation.siblings(message.id)]
        return version(ids.index(message.id) + 1, len(ids))

    async def _settle_live(self, path: list[Message]) -> None:
        """A live view whose answer is over becomes that message's view, or goes."""
        if self._live is None or self._live_of is self.session.running:
            return
        live, running = self._live, self._live_of
        self._live = self._live_of = None
        message = running.message if running else None
        if message is not None and message.id in {m.id for m in path}:
            live.settle(message, self._siblings(message))
            self._views.append(live)
        else:
            if running is not None and live.unfolded:
                self._unfolded.add(running)
            await live.remove()

    async def _match(self, path: list[Message]) -> None:
        """Mount what is missing of the window, remove what is no longer on the path."""
        if self._first is None or self._first > len(path):
            self._first, self._end = max(0, len(path) - WINDOW), None
        if self._end is not None and self._end >= len(path):
            self._end = None
        if self._end is None and len(path) - self._first > KEPT_MOUNTED and not self.at_end:
            self._end = self._first + KEPT_MOUNTED
        if self.selected is not None and self.selected not in {message.id for message in path}:
            self.selected = None
        wanted = path[self._first : self._end]
        same = 0
        while same < min(len(wanted), len(self._views)) and self._views[same].message_id == wanted[same].id:
            same += 1
        gone, self._views[same:] = self._views[same:], []
        if gone:
            await self._let_go(gone)
        fresh = [self._view(message) for message in wanted[same:]]
        if fresh:
            at = self._heads() + len(self._views)
            self._views += fresh
            await self._mount_at(at, *fresh)
        surplus = len(self._views) - 2 * WINDOW
        if surplus > 0 and self.at_end and self._end is None:
            old, self._views[:surplus] = self._views[:surplus], []
            self._first += surplus
            await self._let_go(old)

    async def _let_go(self, views: list[MessageView]) -> None:
        for view in views:
            if isinstance(view, AnswerView) and view.message_id is not None:
                (self._unfolded.add if view.unfolded else self._unfolded.discard)(view.message_id)
        await self._list.remove_children(views)

    async def _sync_live(self) -> None:
        running = self.session.running
        if self._end is not None:
            await self._drop_live()
        if running is None or self._end is not None:
            return
        if self._live is None:
            self._live, self._live_of = AnswerView(self.who, Colours.of(self.app)), running
            self._live.unfold(running in self._unfolded)
            await self._list.mount(self._live)
        at, count = self.session.place
        self._live.feed(running, version(at, count))

    async def _drop_live(self) -> None:
        """What is being said is below the window: with its end in sight, all that has come is shown."""
        if self._live is not None:
            await self._live.remove()
            self._live = self._live_of = None

    def _sync_notes(self) -> None:
        for view in self._views:
            if isinstance(view, AnswerView) and view.message_id in self.session.notes:
                view.note(self.session.notes[view.message_id])

    def action_fold(self) -> None:
        """Fold or unfold what was thought before the selected, else the newest such answer."""
        thought = [view for view in self._views if isinstance(view, AnswerView) and view.thought]
        if self._live is not None and self._live.thought:
            thought.append(self._live)
        chosen = [view for view in thought if view.message_id == self.selected] if self.selected else thought
        if chosen:
            chosen[-1].fold()
        else:
            said = "before this message" if self.selected else "here"
            self.notify(f"nothing was thought {said}", markup=False)

    def action_sideways(self, by: int) -> None:
        """Move code and tables that are too wide: those of the selected message, else all in sight."""
        wide = [view for view in (*self._views, self._live) if view is not None and view.too_wide]
        chosen = [view for view in wide if view.message_id == self.selected] if self.selected else []
        for view in chosen or filter(self.can_view_partial, wide):
            view.move_sideways(by * max(1, self.size.width // 3))

    async def _sync_notice(self) -> None:
        if self._notice is self.session.notice:
            return
        if self._notice_view is not None:
            await self._notice_view.remove()
            self._notice_view = None
        self._notice = self.session.notice
        if self._notice is not None:
            self._notice_view = NoticeView(self._notice.text, self._notice.reason)
            await self._list.mount(self._notice_view)

    async def _sync_lines(self, path: list[Message]) -> None:
        first = self._first or 0
        await self._have(self._earlier, first > 0)
        if first > 0:
            self._earlier.update(f"▲ {first} earlier messages · click, or {hint('move.first')} twice")
        later = 0 if self._end is None else len(path) - self._end + (self.session.running is not None)
        await self._have(self._later, later > 0)
        if later > 0:
            self._later.update(f"▼ {later} later messages · click, or {hint('move.last')} for the end")
        head, session = self.session.head, self.session
        waits = session.running is None and session.notice is None
        for view in self._views:
            if isinstance(view, UserView):
                unanswered = waits and head is not None and head.id == view.message_id
                view.note(f"no answer yet · {hint('again')} has it answered" if unanswered else "")
        conversation = self.session.conversation
        system = conversation.system or "" if first == 0 else ""
        self._system.show(system)
        await self._have(self._system, bool(system))
        sampling = describe(conversation.sampling) if first == 0 else ""
        self._settings.show(sampling)
        await self._have(self._settings, bool(sampling))
        await self._have(self._empty, not path and self.session.running is None and self._notice is None)
