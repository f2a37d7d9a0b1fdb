"""Who runs and whose turn is next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual.binding import BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from chatkv.insight.mirror import Mirror, RequestView
from chatkv.insight.requests import PREEMPTED, RUNNING
from chatkv.tui.cache.boxed import Boxed
from chatkv.tui.cache.cells import clip, join_that_fit, pad
from chatkv.tui.cache.messages import SessionWanted
from chatkv.tui.cache.shown import Shown
from chatkv.tui.cache.states import LOOK_CLASSES, Look, look_css
from chatkv.tui.cache.tree.line import plain
from chatkv.tui.cheap_layout import set_extent
from chatkv.tui.kept_styles import KeptStyles
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
    request: int


def progress(done: int, of: int, width: int = _BAR) -> str:
    """``▰▰▰▱▱▱``: how much of a prompt has been computed."""
    full = width if of <= 0 else min(width, width * max(0, done) // of)
    return "▰" * full + "▱" * (width - full)


class QueueView(ScrollView, Boxed, KeptStyles, can_focus=True):
    """``▶ 12 rust help  prefill 128/406``, then those who wait in the order of their turns.

    Of one that waits: how much of its prompt is cached now (``matched``) and how often a later one
    ran before it (``overtaken``). Enter or a click posts ``SessionWanted``.
    """

    DEFAULT_CSS = f"""
    QueueView {{
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
    }}
    QueueView > .queue--mine {{ text-style: bold; }}
    QueueView > .queue--cursor {{ text-style: reverse; }}
    {look_css("QueueView")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = LOOK_CLASSES | {"queue--mine", "queue--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("move.down", "move(1)"),
        bind("move.up", "move(-1)"),
        bind("move.page_up", "move_pages(-1)"),
        bind("move.page_down", "move_pages(1)"),
        bind("move.first", "go(0)"),
        bind("move.last", "go(-1)"),
        bind("pane.inspect", "select", "Session", tooltip="To its session"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.name_box("Queue")
        self._lines: tuple[QueueLine, ...] = ()
        self._cursor = 0
        """A line."""
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
        policy = self._policy_in_force(mirror.policy)
        title = f"Queue · {len(running)} running · {len(waiting)} waiting"
        title += f" · {clip(policy, 30)}" if policy else ""
        self.name_box(title)
        if lines != self._lines:
            self._stay(lines)
            self._lines = lines
            self._fit()

    def _policy_in_force(self, told: str) -> str:
        """As the engine calls its own; with too many waiting it goes by another for a while."""
        if not self._policy or (told and not self._policy.casefold().startswith(told)):
            return told.upper()
        return self._policy

    def _stay(self, lines: tuple[QueueLine, ...]) -> None:
        """The cursor stays on its request; where that is over, at its place."""
        here = self._lines[self._cursor].request if self._cursor < len(self._lines) else None
        at = next((n for n, line in enumerate(lines) if line.request == here), self._cursor)
        self._cursor = max(0, min(at, len(lines) - 1))

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
        return QueueLine(
            Look.NEW, f"▶{view.id:>4} ", view.session, tuple(facts), view.session == session, view.id
        )

    def _waits(self, at: int, view: RequestView, session: str | None) -> QueueLine:
        again = view.state == PREEMPTED
        facts = [("waits again" if again else "waits", 6), (f"{view.prompt_tokens} prompt", 4)]
        if view.matched is not None:
            facts.append((f"matched {view.matched}", 7))
        look = Look.EVICTED if again else Look.IDLE
        mine = view.session == session
        return QueueLine(look, f"{at}{view.id:>4} ", view.session, (*facts, *self._past(view)), mine, view.id)

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
        width, base = self.scrollable_content_region.width, self.style_of()
        if not self._lines:
            return plain("nothing runs and nobody waits" if y == 0 else "", width, base)
        at = y + self.scroll_offset.y
        if at >= len(self._lines):
            return Strip.blank(width, base)
        line = self._lines[at]
        style = base + self.style_of(line.look.css, partial=True)
        weight = self.style_of("queue--mine", partial=True) if line.mine else None
        name_width = min(_NAME, max(0, width - len(line.lead)) // 3)
        name = pad(self.session_name(line.session), name_width)
        room = max(0, width - len(line.lead) - name_width - 1)
        strip = Strip(
            [
                Segment(line.lead, style),
                Segment(name + " ", base + weight if weight else base),
                Segment(join_that_fit(line.facts, "  ", room), base),
            ]
        ).adjust_cell_length(width, base)
        if self.has_focus and at == self._cursor:
            strip = strip.apply_style(self.style_of("queue--cursor", partial=True))
        return strip

    # -- moving ------------------------------------------------------------------------------

    def action_go(self, line: int) -> None:
        """Go to the first line (0) or the last (-1)."""
        self._cursor = max(0, min(line if line >= 0 else len(self._lines) - 1, len(self._lines) - 1))
        self.scroll_to_region(Region(0, self._cursor, 1, 1), animate=False, force=True)
        self.refresh()

    def action_move(self, lines: int) -> None:
        """Move by ``lines``."""
        self.action_go(max(0, self._cursor + lines))

    def action_move_pages(self, pages: int) -> None:
        """Move by ``pages`` less a line."""
        self.action_move(pages * max(1, self.scrollable_content_region.height - 1))

    def action_select(self) -> None:
        """Ask for the session of the request under the cursor."""
        if self._lines:
            self.post_message(SessionWanted(self._lines[self._cursor].session))

    def on_click(self, event: Click) -> None:
        """Ask for the session whose request was clicked."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y + self.scroll_offset.y < len(self._lines):
            self.action_go(offset.y + self.scroll_offset.y)
            self.action_select()
