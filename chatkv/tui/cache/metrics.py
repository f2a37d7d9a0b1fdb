"""How well the cache does: hit rate, speed, where the blocks are, evictions, the queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from textual.content import Content
from textual.widget import Widget

from chatkv.insight.mirror import Mirror
from chatkv.insight.requests import PREEMPTED, RUNNING, WAITING
from chatkv.tui.cache.cells import clip, join_that_fit, sparkline
from chatkv.tui.cache.shown import Shown
from chatkv.tui.cache.states import Look

_KEPT = 120
"""Samples kept for a sparkline: as many as a wide pane shows."""


class MetricsView(Widget):
    """Four lines of figures, and a red one where the mirror's own check found something."""

    DEFAULT_CSS = """
    MetricsView {
        height: auto;
        min-height: 4;
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Metrics"
        self._hits: deque[float] = deque(maxlen=_KEPT)
        """Hit rate of each prompt (of all since the last frame, when there were several)."""
        self._rates: deque[float] = deque(maxlen=_KEPT)
        self._accounted = (0, 0)
        """Prompt tokens and hits that ``_hits`` holds already."""
        self._blocks = (0, 0, 0)
        """Protected, evictable, free."""
        self._evictions = 0
        self._queue = (0, 0)
        self._hit_rate = 0.0
        self._policy = ""
        self._problems: tuple[str, ...] = ()
        self._shown = Shown()

    def show(self, mirror: Mirror, focus_session: str | None) -> None:
        """Take the figures of this state (they are the same for every session)."""
        if self._shown.again(mirror, None):
            return
        totals = mirror.totals
        accounted = (totals.prompt_tokens, totals.hit + totals.copied)
        if accounted[0] < self._accounted[0]:
            self._hits.clear()
            self._accounted = (0, 0)
        asked = accounted[0] - self._accounted[0]
        if asked:
            self._hits.append((accounted[1] - self._accounted[1]) / asked)
        self._accounted, self._hit_rate, self._evictions = accounted, totals.hit_rate, totals.evictions
        self._blocks = (mirror.protected, mirror.evictable, mirror.free)
        states = [view.state for view in mirror.requests.values()]
        self._queue = (states.count(WAITING) + states.count(PREEMPTED), states.count(RUNNING))
        self.refresh()

    def add_rate(self, tokens_per_s: float) -> None:
        """One more sample of the speed, whenever the app has taken one."""
        self._rates.append(tokens_per_s)
        self.refresh()

    def set_policy(self, policy: str) -> None:
        """The scheduler's policy, by name."""
        if policy != self._policy:
            self._policy = policy
            self.refresh()

    def set_problems(self, problems: Sequence[str]) -> None:
        """What ``Mirror.check`` found (nothing, as it should be)."""
        found = tuple(problems)
        if found != self._problems:
            had, self._problems = bool(self._problems), found
            self.refresh(layout=had != bool(found))

    def render(self) -> Content:
        """The lines in the width there is."""
        width = self.content_size.width
        lines: list[Content] = [
            Content(self._speed(width)),
            self._bar(width),
            *map(Content, self._counts(width)),
        ]
        if self._problems:
            more = f" (and {len(self._problems) - 1} more)" if len(self._problems) > 1 else ""
            text = clip(f"✗ check failed{more}: {self._problems[0]}", width)
            lines.append(Content.styled(text, "bold $error"))
        return Content("\n").join(lines)

    def _speed(self, width: int) -> str:
        hit = f"hit {100 * self._hit_rate:.0f}% "
        rate = f"tok/s {self._rates[-1]:.1f} " if self._rates else "tok/s – "
        room = max(0, (width - len(hit) - len(rate) - 3) // 2)
        return clip(
            f"{hit}{sparkline(self._hits, room, 1.0):<{room}}   {rate}{sparkline(self._rates, room)}", width
        )

    def _bar(self, width: int) -> Content:
        """The pool as a bar: in use, cached but free to take, free."""
        total = sum(self._blocks)
        looks = (Look.LOCKED, Look.IDLE, Look.FREE)
        if not total:
            return Content("")
        ends = [round(width * sum(self._blocks[: i + 1]) / total) for i in range(3)]
        cells = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        return Content.assemble(
            *((look.glyph * count, look.variable) for look, count in zip(looks, cells, strict=True))
        )

    def _counts(self, width: int) -> tuple[str, str]:
        protected, evictable, free = self._blocks
        waiting, running = self._queue
        blocks = [
            (f"# in use {protected}", 3),
            (f"· cached {evictable}", 2),
            (f". free {free}", 1),
            (f"of {sum(self._blocks)} blk", 0),
        ]
        queue = [
            (f"evict {self._evictions}", 3),
            (f"queue {waiting}", 2),
            (f"running {running}", 1),
            (self._policy, 0),
        ]
        return join_that_fit(blocks, "  ", width), join_that_fit([p for p in queue if p[0]], "  ", width)
