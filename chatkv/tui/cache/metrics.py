"""How well the cache does: hit rate, waits, speeds, where the blocks are, evictions, what reuse saves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.content import Content

from chatkv.engine.stats import EngineStats
from chatkv.insight.lately import PROMPTS
from chatkv.insight.mirror import Mirror
from chatkv.insight.requests import RUNNING
from chatkv.tui.cache.cells import clip, join_that_fit, pad, sparkline
from chatkv.tui.cache.shown import Shown
from chatkv.tui.cache.states import LOOK_CLASSES, Look, look_css
from chatkv.tui.chat.figures import seconds
from chatkv.tui.frame_titles import subtitle_frame, title_frame
from chatkv.tui.row_widget import Piece, RowWidget

_LABEL = 26
"""Cells of words before a sparkline."""
_LEAST_SPARK = 6

Part = tuple[str, int]
"""Words with their importance, see ``join_that_fit``."""
Pieces = list[Piece]


def saved(value: float) -> str:
    """``3.2 s``, ``4 min``: a span that goes on growing."""
    return seconds(value) if value < 120 else f"{value / 60:.0f} min"


class MetricsView(RowWidget, can_focus=True):
    """Lines of figures; the light under them is green while every invariant holds, red with words if not."""

    DEFAULT_CSS = f"""
    MetricsView {{
        height: auto;
        min-height: 6;
    }}
    MetricsView > .metrics--spark {{ color: $accent; }}
    MetricsView > .metrics--failed {{ color: $error; text-style: bold; }}
    {look_css("MetricsView")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = LOOK_CLASSES | {"metrics--spark", "metrics--failed"}

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        title_frame(self, Content("Metrics"))
        self._mirror: Mirror | None = None
        self._stats: EngineStats | None = None
        self._evictions: tuple[int, Sequence[int]] = (0, ())
        """In the last minute, and in each part of it."""
        self._queue = (0, 0)
        self._policy = ""
        self._problems: tuple[str, ...] = ()
        self._checked = False
        self._light = Content("")
        self._shown = Shown()

    def show(self, mirror: Mirror, focus_session: str | None) -> None:
        """Take the figures of this state (they are the same for every session)."""
        if self._shown.again(mirror, None):
            return
        begins, self._mirror = self._mirror is None, mirror
        running = sum(view.state == RUNNING for view in mirror.requests.values())
        self._queue = (len(mirror.waiting), running)
        self._set_light()
        self.changed(layout=begins)

    def set_engine(self, stats: EngineStats | None, evictions: int, bars: Sequence[int] = ()) -> None:
        """What the records alone don't tell: the engine's own figures, and what happened in a minute."""
        if (stats, (evictions, bars)) != (self._stats, self._evictions):
            self._stats, self._evictions = stats, (evictions, bars)
            self.changed()

    def set_policy(self, policy: str) -> None:
        """The scheduler's policy, by name."""
        if policy != self._policy:
            self._policy = policy
            self._set_light()

    def set_problems(self, problems: Sequence[str], checked: bool = True) -> None:
        """What the check of the invariants found (nothing, as it should be); ``checked``: it has looked."""
        found = tuple(problems)
        if (found, checked) != (self._problems, self._checked):
            taller = bool(self._problems) != bool(found)
            self._problems, self._checked = found, checked
            self._set_light()
            self.changed(layout=taller)

    def on_resize(self) -> None:
        """The border has other room."""
        self._set_light()

    def _set_light(self) -> None:
        """In the border, where it takes no line away; its glyph says it too where there is no colour. Before
        it: who runs and who waits.
        """
        if self._problems:
            light = Content.styled("✗ check failed", "bold $error")
        else:
            light = Content.styled("✓ invariants hold", "$success") if self._checked else Content("")
        waiting, running = self._queue
        parts = [(f"{running} running", 2), (f"{waiting} waiting", 1), (self._policy, 0)]
        room = self.outer_size.width - 9 - light.cell_length
        if self._mirror is not None and room >= cell_len(parts[0][0]):
            words = join_that_fit([part for part in parts if part[0]], " · ", room)
            light = Content.assemble(words, " · " if light else "", light)
        if light != self._light:
            self._light = light
            subtitle_frame(self, light)

    def rows(self, width: int) -> Sequence[Sequence[Piece]]:
        """See the base class."""
        if self._mirror is None:
            return []
        lines = [
            *self._sparks(self._mirror, width),
            self._bar(self._mirror, width),
            [(self._blocks(self._mirror, width), "")],
            self._gone_and_saved(self._mirror, width),
        ]
        if self._problems:
            more = f" (and {len(self._problems) - 1} more)" if len(self._problems) > 1 else ""
            text = clip(f"✗ check failed{more}: {self._problems[0]}", width)
            lines.insert(0, [(text, "metrics--failed")])  # the box may be low
        return lines

    def _sparks(self, mirror: Mirror, width: int) -> list[Pieces]:
        lately, stats = mirror.lately, self._stats
        total = f"hit {100 * mirror.totals.hit_rate:.0f}%"
        rolling = f"last {min(PROMPTS, len(lately.prompts))}: {100 * lately.hit_rate:.0f}%"
        hit = [(total, 2), (rolling, 1)] if lately.prompts else [(total, 2)]
        bars = [reused / asked for asked, reused in lately.prompts if asked]
        ttft = [(f"ttft {seconds(lately.ttfts[-1])}" if lately.ttfts else "ttft –", 2)]
        if stats is not None and stats.ttft_s.p50 is not None:
            ttft.append((f"p50 {seconds(stats.ttft_s.p50)}", 1))
        prefill, decode = (None, None) if stats is None else (stats.prefill_tps, stats.decode_tps)
        half = (width - 2) // 2
        words = [f"decode {_rate(decode)}", f"prefill {_rate(prefill)}"]
        if max(map(cell_len, words)) > half:
            words = [text.replace(" tok/s", "/s") for text in words]
        speeds = [
            *self._spark([(words[0], 1)], lately.decode.values, None, half, half),
            ("  ", ""),
            *self._spark([(words[1], 1)], lately.prefill.values, None, width - 2 - half, half),
        ]
        return [
            self._spark(hit, bars, 1.0, width),
            self._spark(ttft, lately.ttfts, None, width),
            speeds,
        ]

    @staticmethod
    def _spark(
        parts: Sequence[Part], values: Sequence[float], top: float | None, width: int, label: int = _LABEL
    ) -> Pieces:
        """Words, and the sparkline in the room behind them."""
        beside = width - _LEAST_SPARK - 1
        most = max(parts, key=lambda part: part[1])[0]
        words = join_that_fit(parts, " · ", beside if cell_len(most) <= beside else width)
        room = width - min(width, max(cell_len(words), label if label < width else 0)) - 1
        bars = sparkline(values, room, top) if room >= _LEAST_SPARK else ""
        return [(pad(words, width - max(0, room)), ""), (pad(bars, max(0, room)), "metrics--spark")]

    @staticmethod
    def _bar(mirror: Mirror, width: int) -> Pieces:
        """The pool as a bar: in use, cached but free to take, free."""
        blocks = (mirror.protected, mirror.evictable, mirror.free)
        total = sum(blocks)
        looks = (Look.LOCKED, Look.IDLE, Look.FREE)
        if not total:
            return []
        ends = [round(width * sum(blocks[: i + 1]) / total) for i in range(3)]
        cells = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        return [(look.glyph * count, look.css) for look, count in zip(looks, cells, strict=True)]

    @staticmethod
    def _blocks(mirror: Mirror, width: int) -> str:
        blocks = [
            (f"# in use {mirror.protected}", 3),
            (f"· cached {mirror.evictable}", 2),
            (f". free {mirror.free}", 1),
            (f"of {mirror.num_blocks} blk", 0),
        ]
        return join_that_fit(blocks, "  ", width)

    def _gone_and_saved(self, mirror: Mirror, width: int) -> Pieces:
        """What eviction took, minute by minute, and what reuse saved, prompt by prompt."""
        minute, bars = self._evictions
        evicted = f"evicted {mirror.totals.evictions}, {minute}/min"
        seconds_saved = None if self._stats is None else self._stats.saved_s
        if seconds_saved is None:
            return self._spark([(evicted, 1)], bars, None, width, width)
        half = (width - 2) // 2
        words = f"reuse saved {saved(seconds_saved)}"
        if max(cell_len(evicted), cell_len(words)) > half:
            return [(join_that_fit([(words, 2), (evicted, 1)], "  ", width), "")]
        if cell_len(words) + 1 + _LEAST_SPARK > width - 2 - half:
            words = words.removeprefix("reuse ")
        reused = [reused for _, reused in mirror.lately.prompts]
        return [
            *self._spark([(evicted, 1)], bars, None, half, half),
            ("  ", ""),
            *self._spark([(words, 1)], reused, None, width - 2 - half, half),
        ]


def _rate(value: float | None) -> str:
    if value is None:
        return "– tok/s"
    return f"{value:.1f} tok/s" if value < 100 else f"{value:,.0f} tok/s"
