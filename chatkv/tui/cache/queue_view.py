"""Who runs and whose turn is next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual.binding import BindingType
from textual.events import Click
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from chatkv.insight.mirror import Mirror, RequestView
from chatkv.insight.requests import PREEMPTED, RUNNING
from chatkv.tui.cache.boxed import Boxed
from chatkv.tui.cache.cells import clip, join_that_fit, pad
from chatkv.tui.cache.messages import SessionWanted
from chatkv.tui.cache.shown import Shown
from chatkv.tui.cache.states import LOOK_CLASSES, Look, look_css
from chatkv.tui.cache.tree_line import plain
from chatkv.tui.cheap_layout import set_extent
from chatkv.tui.keys.current import bind

_BAR = 8
_NAME = 16


class QueueLine(NamedTuple):
    """One request. ``facts`` are words with their importance, see ``join_that_fit``."""

    look: Look
    lead: str
    session: str
    facts: tuple[tuple[str, int], ...]
    mine: bool


def progress(done: int, of: int, width: int = _BAR) -> str:
    """``▰▰▰▱▱▱``: how much of a prompt has been computed."""
    full = width if of <= 0 else min(width, width * max(0, done) // of)
    return "▰" * full + "▱" * (width - full)


class QueueView(ScrollView, Boxed, can_focus=True):
    """``▶ 12 rust help  prefill 128/406``, then those who wait in the order of their turns.

    Of one that waits: how much of its prompt is cached now (``matched``) and how often a later one
    ran before it (``overtaken``).
    """

    DEFAULT_CSS = f"""
    QueueView {{
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
    }}
    QueueView > .queue--mine {{ text-style: bold; }}
    {look_css("QueueView")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = LOOK_CLASSES | {"queue--mine"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("move.down", "scroll_down"),
        bind("move.up", "scroll_up"),
        bind("move.page_up", "page_up"),
        bind("move.page_down", "page_down"),
        bind("move.first", "scroll_home"),
        bind("move.last", "scroll_end"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.name_box("Queue")
        self._lines: tuple[QueueLine, ...] = ()
        self._policy = ""
        self._shown = Shown()
        self.session_name: Callable[[str], str] = str
        """A session's key → what people call it."""

    def set_policy(self, policy: str) -> None:
        """What the engine was started with; the mirror knows the policy in force once someone waited."""
        self._policy = policy

    def show(self, mirror: Mirror, focus_session: str | None) -> None:
        """Draw this state; requests of ``focus_session`` stand out."""
        if self._shown.again(mirror, focus_session):
            return
        waiting = mirror.waiting
        running = [view for view in mirror.requests.values() if view.state == RUNNING]
        lines = (
            *(self._runs(view, mirror, focus_session) for view in running),
            *(self._waits(at, view, focus_session) for at, view in enumerate(waiting, 1)),
        )
        policy = mirror.policy or self._policy
        title = f"Queue · {len(running)} running · {len(waiting)} waiting"
        title += f" · {clip(policy, 30)}" if policy else ""
        self.name_box(title)
        if lines != self._lines:
            self._lines = lines
            self._fit()

    def _runs(self, view: RequestView, mirror: Mirror, session: str | None) -> QueueLine:
        row = mirror.rows.get(view.id)
        facts: list[tuple[str, int]] = []
        if row is not None and row.written < row.prompt_tokens:
            bar = progress(row.written, row.prompt_tokens)
            facts += [("prefill", 6), (bar, 4), (f"{row.written}/{row.prompt_tokens}", 7)]
        else:
            facts.append((f"answer {view.output_tokens} tok", 7))
        if view.cached:
            facts.append((f"reused {view.cached}/{view.prompt_tokens}", 5))
        facts += self._past(view)
        return QueueLine(Look.NEW, f"▶{view.id:>4} ", view.session, tuple(facts), view.session == session)

    def _waits(self, at: int, view: RequestView, session: str | None) -> QueueLine:
        again = view.state == PREEMPTED
        facts = [("waits again" if again else "waits", 6), (f"{view.prompt_tokens} prompt", 4)]
        if view.matched is not None:
            facts.append((f"matched {view.matched}", 7))
        look = Look.EVICTED if again else Look.IDLE
        mine = view.session == session
        return QueueLine(look, f"{at}{view.id:>4} ", view.session, (*facts, *self._past(view)), mine)

    @staticmethod
    def _past(view: RequestView) -> Iterator[tuple[str, int]]:
        if view.overtaken:
            yield f"overtaken {view.overtaken}×", 5
        if view.preemptions:
            yield f"preempted {view.preemptions}×", 5

    def _fit(self) -> None:
        set_extent(self, Size(self.scrollable_content_region.width, len(self._lines)))
        self.refresh()

    def on_resize(self) -> None:
        """Fit the new size."""
        self._fit()

    def render_line(self, y: int) -> Strip:
        """One request."""
        width, base = self.scrollable_content_region.width, self.rich_style
        if not self._lines:
            return plain("nothing runs and nobody waits" if y == 0 else "", width, base)
        at = y + self.scroll_offset.y
        if at >= len(self._lines):
            return Strip.blank(width, base)
        line = self._lines[at]
        style = base + self.get_component_rich_style(line.look.css, partial=True)
        weight = self.get_component_rich_style("queue--mine", partial=True) if line.mine else None
        name_width = min(_NAME, max(0, width - len(line.lead)) // 3)
        name = pad(self.session_name(line.session), name_width)
        room = max(0, width - len(line.lead) - name_width - 1)
        return Strip(
            [
                Segment(line.lead, style),
                Segment(name + " ", base + weight if weight else base),
                Segment(join_that_fit(line.facts, "  ", room), base),
            ]
        ).adjust_cell_length(width, base)

    def on_click(self, event: Click) -> None:
        """Ask for the session whose request was clicked."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y + self.scroll_offset.y < len(self._lines):
            self.post_message(SessionWanted(self._lines[offset.y + self.scroll_offset.y].session))
