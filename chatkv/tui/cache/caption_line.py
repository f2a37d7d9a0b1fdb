"""What has just happened, in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.content import Content
from textual.widget import Widget

from chatkv.insight.mirror import Mirror
from chatkv.insight.narrator import Narrator, Sentence
from chatkv.kvcache.events import Event
from chatkv.tui.cache.cells import clip
from chatkv.tui.cache.states import event_look


class CaptionLine(Widget):
    """``/ 'rust help' and 'poem' share their first 128 tokens: node split in two``."""

    DEFAULT_CSS = """
    CaptionLine { height: 1; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._narrator = Narrator()
        self._drawn: Sentence | None = None

    @property
    def session_name(self) -> Callable[[str], str]:
        """A session's key → what people call it."""
        return self._narrator.session_name

    @session_name.setter
    def session_name(self, name: Callable[[str], str]) -> None:
        self._narrator.session_name = name

    def hear(self, events: Iterable[Event], mirror: Mirror, now: float) -> None:
        """These happened, ``mirror`` is how things stand behind them; ``now`` is wall time, in seconds."""
        self._narrator.hear(events, mirror, now)
        self._draw()

    def tick(self, now: float) -> None:
        """Time goes by. Not to be told while the picture stands still."""
        self._narrator.tick(now)
        self._draw()

    def _draw(self) -> None:
        if self._narrator.shown is not self._drawn:
            self._drawn = self._narrator.shown
            self.refresh()

    def render(self) -> Content:
        """The sentence, cut to the width there is."""
        if self._drawn is None:
            return Content("")
        look, glyph = event_look(self._drawn.kind)
        text = clip(self._drawn.text, self.content_size.width - 2)
        return Content.assemble((glyph, look.variable if look else ""), f" {text}")
