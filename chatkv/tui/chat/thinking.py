"""What a model thought before it answered: one line, which unfolds."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click
from textual.widgets import Static

from chatkv.text import one_line, printable

SHOWN = 20_000
"""Characters laid out when unfolded."""


class Thinking(Vertical):
    """Folded at first, also while it grows: then its newest words stand in the line."""

    DEFAULT_CSS = """
    Thinking { height: auto; display: none; color: $text-muted; }
    Thinking.some { display: block; }
    Thinking > .line { height: 1; text-style: italic; }
    Thinking > .line:hover { color: $accent; }
    Thinking > .whole { height: auto; display: none; border-left: solid $foreground 30%; padding: 0 0 0 1; }
    Thinking.-unfolded > .whole { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._line = Static("", classes="line", markup=False)
        self._whole = Static("", classes="whole", markup=False)
        self._text = ""
        self._over = False

    def compose(self) -> ComposeResult:
        """Its parts."""
        yield self._line
        yield self._whole

    def show(self, text: str, over: bool) -> None:
        """Show this from now on; ``over``: the answer has begun."""
        if (text, over) != (self._text, self._over):
            self._text, self._over = text, over
            self.set_class(bool(text), "some")
            self._draw()

    @property
    def some(self) -> bool:
        """Whether there was any."""
        return bool(self._text)

    def fold(self) -> None:
        """Fold it, or unfold it."""
        self.toggle_class("-unfolded")
        self._draw()

    def _draw(self) -> None:
        unfolded = self.has_class("-unfolded")
        mark = "▾" if unfolded else "▸"
        words = len(self._text.split())
        if self._over:
            does = "folds" if unfolded else "unfolds"
            line = f"{mark} thought for {words:,} word{'s' * (words != 1)} · t {does}"
        else:
            line = f"{mark} thinking, {words:,} words … {one_line(self._text[-60:], 60)}"
        self._line.update(Content(line))
        if unfolded:
            rest = len(self._text) - SHOWN
            more = f"\n… {rest:,} more characters" if rest > 0 else ""
            self._whole.update(Content(printable(self._text[:SHOWN]) + more))

    def on_click(self, event: Click) -> None:
        """A click on the line folds too."""
        if event.widget is self._line:
            event.stop()
            self.fold()
