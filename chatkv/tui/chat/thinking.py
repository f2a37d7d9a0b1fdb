"""What a model thought before it answered: one line, which unfolds."""

from __future__ import annotations

from textual.content import Content

from chatkv.text import one_line, printable
from chatkv.tui.chat.rows import Block, Laid, Text

SHOWN = 20_000
"""Characters laid out when unfolded."""


class _Whole(Text):
    """With a line at its left side."""

    def lay(self, width: int) -> Laid:
        """See the base class."""
        laid = super().lay(max(1, width - 2))
        bar = (("│", ("message--bar",)), (" ", ()))
        return Laid([row._replace(before=bar) for row in laid.rows], laid.lines)


class Thinking:
    """Folded at first, also while it grows: then its newest words stand in the line."""

    def __init__(self) -> None:
        self._text = ""
        self._over = self._unfolded = self._hovered = False
        self.line: Block | None = None
        """None: nothing was thought."""
        self._whole: Block | None = None

    @property
    def blocks(self) -> list[Block]:
        """The line, and where it is unfolded what was thought."""
        return [block for block in (self.line, self._whole) if block is not None]

    def show(self, text: str, over: bool) -> None:
        """Show this from now on; ``over``: the answer has begun."""
        if (text, over) != (self._text, self._over):
            self._text, self._over = text, over
            self._write()

    def fold(self) -> None:
        """Fold it, or unfold it."""
        self._unfolded = not self._unfolded
        self._write()

    def hover(self, hovered: bool) -> bool:
        """The mouse is on the line, or not; False where that is nothing new."""
        if hovered == self._hovered:
            return False
        self._hovered = hovered
        self._write()
        return True

    def _write(self) -> None:
        self.line = self._whole = None
        if not self._text:
            return
        mark = "▾" if self._unfolded else "▸"
        words = len(self._text.split())
        if self._over:
            does = "folds" if self._unfolded else "unfolds"
            line = f"{mark} thought for {words:,} word{'s' * (words != 1)} · t {does}"
        else:
            line = f"{mark} thinking, {words:,} words … {one_line(self._text[-60:], 60)}"
        self.line = _Line(Content(line), ("message--hover" if self._hovered else "message--aside",))
        if self._unfolded:
            rest = len(self._text) - SHOWN
            more = f"\n… {rest:,} more characters" if rest > 0 else ""
            self._whole = _Whole(Content(printable(self._text[:SHOWN]) + more), ("message--dim",))


class _Line(Text):
    """One row, however long it is."""

    def lay(self, width: int) -> Laid:
        """See the base class."""
        laid = super().lay(width)
        return Laid(laid.rows[:1], laid.lines)
