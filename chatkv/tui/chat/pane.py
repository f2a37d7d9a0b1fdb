"""The chat pane: the current session's conversation; others stay mounted, hidden, as they were scrolled."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content

from chatkv.text import one_line
from chatkv.tui.cache.boxed import fitting
from chatkv.tui.chat.conversation import ConversationView
from chatkv.tui.chat.looks import MessageLooks
from chatkv.tui.chat.who import short_name
from chatkv.tui.frame_titles import subtitle_frame, title_frame
from chatkv.tui.keys.current import hint
from chatkv.tui.sessions.session import Session

KEPT = 6
"""Conversations kept mounted; going back to one of them is instant."""

WELCOME = """\
Ask anything below.

What a session shares with others is not computed again: it is read from the KV cache. Watch the tree.

{new:<7} new session
{fork:<7} fork this one
{help:<7} all keys"""


def _welcome() -> str:
    return WELCOME.format(**{id: hint(id) for id in ("new", "fork", "help")})


NEAR = 0.8
"""The part of the context from which the gauge warns."""
_CELLS = 10


def near(context: tuple[int, int] | None) -> bool:
    """Whether the next answers may not fit any more."""
    return context is not None and context[0] >= NEAR * context[1]


def gauge(context: tuple[int, int] | None) -> str:
    """``context ▰▰▰▱▱▱▱▱▱▱ 31 %``, and near the limit what to do."""
    if context is None:
        return ""
    used, limit = context
    share = min(1.0, used / max(1, limit))
    if near(context):
        return f"context {share:.0%} full · {hint('fork')} forks earlier · {hint('new')} new"
    full = max(1, int(share * _CELLS))
    return f"context {'▰' * full}{'▱' * (_CELLS - full)} {share:.0%}"


class ChatPane(Container):
    """Shows one session at a time. ``show`` switches, ``sync`` follows."""

    DEFAULT_CSS = """
    ChatPane { border: round $frame; border-title-color: $text-muted; }
    ChatPane:focus-within { border: round $accent; border-title-color: $accent; }
    ChatPane { border-subtitle-color: $text-muted; }
    ChatPane.-near { border-subtitle-color: $warning; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._looks = MessageLooks()
        self._views: list[ConversationView] = []
        self._who = "model"
        self._lines = Content(""), Content("")
        self._used: tuple[int, int] | None = None
        self._glance = Content("")

    def compose(self) -> ComposeResult:
        """Conversations come when they are shown."""
        yield self._looks

    @property
    def view(self) -> ConversationView | None:
        """The one on the screen."""
        return self._views[-1] if self._views else None

    def name_model(self, model: str) -> None:
        """From now on answers are headed by this model's short name."""
        self._who = short_name(model)
        for view in self._views:
            view.name_model(self._who)

    async def show(self, session: Session) -> None:
        """Put ``session`` on the screen."""
        view = next((v for v in self._views if v.session is session), None)
        if view is not None:
            self._views.remove(view)
        else:
            view = ConversationView(session, self._who, _welcome(), self._looks)
            await self.mount(view)
        focused = self.view is not None and self.view.has_focus
        for other in self._views:
            other.display = False
        self._views.append(view)
        view.display = True
        if focused:
            # At once: who asks for the focus afterwards is to have it.
            self.screen.set_focus(view)
        while len(self._views) > KEPT:
            await self._views.pop(0).remove()
        await self.sync()

    async def forget(self, session: Session) -> None:
        """Its session is gone."""
        for view in [v for v in self._views if v.session is session]:
            self._views.remove(view)
            await view.remove()

    def show_context(self, context: tuple[int, int] | None) -> None:
        """(used, limit) in tokens of the session on the screen; None: unknown."""
        self._used = context

    def show_glance(self, glance: Content) -> None:
        """What to say of the cache beside the context; nothing where it has panes to be seen in."""
        if glance != self._glance:
            self._glance = glance
            self._show_lines()

    async def sync(self) -> None:
        """Follow the current session; cheap where nothing changed."""
        view = self.view
        if view is None:
            return
        await view.sync()
        self._show_lines()

    @on(ConversationView.EndSeen)
    def _show_lines(self) -> None:
        view = self.view
        if view is None:
            return
        title = Content(f"Chat · {one_line(view.session.name, 40)}")
        room = self.size.width - 4
        more = Content(
            fitting(gauge(self._used) if view.at_end else f"↓ more below · {hint('move.last')}", room)
        )
        if self._glance and self._glance.cell_length + 3 + more.cell_length <= room:
            more = Content(" · ").join([part for part in (self._glance, more) if part])
        warns = not view.at_end or near(self._used)
        if warns != self.has_class("-near"):
            # Of all that is in the pane nothing looks other by it: Textual would look at each widget's style.
            self.set_class(warns, "-near", update=False)
            self.app.stylesheet.apply(self)
        if (title, more) != self._lines:
            if title != self._lines[0]:
                title_frame(self, title)
            if more != self._lines[1]:
                subtitle_frame(self, more)
            self._lines = (title, more)
