"""What a model thought before it answered: one line, which unfolds."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from chatkv.text import one_line, printable
from chatkv.tui.chat.rows import Block, Laid, Text
from chatkv.tui.keys.current import hint

SHOWN = 100_000
"""Characters laid out when unfolded."""
_PIECE = 1_000
"""Characters after which a line begins another block: what has not changed is not laid out again."""
_ELLIPSIS = "… {:,} more characters"


class _Whole(Text):
    """With a line at its left side."""

    def lay(self, width: int) -> Laid:
        """See the base class."""
        laid = super().lay(max(1, width - 2))
        bar = (("│", ("message--bar",)), (" ", ()))
        return Laid([row._replace(before=bar) for row in laid.rows], laid.lines)


class _Line(Text):
    """One row, however long it is."""

    def lay(self, width: int) -> Laid:
        """See the base class."""
        laid = super().lay(width)
        return Laid(laid.rows[:1], laid.lines)


class Thinking:
    """Folded at first, also while it grows: then its newest words stand in the line."""

    def __init__(self) -> None:
        self._text = ""
        self._over = self._hovered = False
        self.unfolded = False
        self.line: Block | None = None
        """None: nothing was thought."""
        self._whole: list[_Whole] = []

    @property
    def blocks(self) -> list[Block]:
        """The line, and where it is unfolded what was thought."""
        return [] if self.line is None else [self.line, *self._whole]

    def show(self, text: str, over: bool) -> None:
        """Show this from now on; ``over``: the answer has begun."""
        if (text, over) != (self._text, self._over):
            self._text, self._over = text, over
            self._write()

    def fold(self) -> None:
        """Fold it, or unfold it."""
        self.unfolded = not self.unfolded
        self._write()

    def hover(self, hovered: bool) -> bool:
        """The mouse is on the line, or not; False where that is nothing new."""
        if hovered == self._hovered:
            return False
        self._hovered = hovered
        self._write_line()
        return True

    def _write(self) -> None:
        self._write_line()
        if self.line is None or not self.unfolded:
            self._whole = []
            return
        pieces = list(_pieces(self._text))
        before, self._whole = self._whole, []
        for at, piece in enumerate(pieces):
            last = at == len(pieces) - 1
            same = at < len(before) and before[at].text.plain == piece and before[at].below == last
            block = before[at] if same else _Whole(Content(piece), ("message--dim",), below=int(last))
            self._whole.append(block)

    def _write_line(self) -> None:
        self.line = None
        if not self._text:
            return
        mark = "▾" if self.unfolded else "▸"
        words = len(self._text.split())
        if self._over:
            does = "folds" if self.unfolded else "unfolds"
            line = f"{mark} thought for {words:,} word{'s' * (words != 1)} · {hint('chat.thinking')} {does}"
        else:
            newest = "" if self.unfolded else f" {one_line(self._text[-60:], 60)}"
            line = f"{mark} thinking, {words:,} word{'s' * (words != 1)} …{newest}"
        self.line = _Line(Content(line), ("message--hover" if self._hovered else "message--aside",))


def _pieces(text: str) -> Iterator[str]:
    """What is shown of ``text``, cut between lines; a text that grows keeps all pieces but the last."""
    lines: list[str] = []
    size = 0
    for line in printable(text[:SHOWN]).split("\n"):
        if size >= _PIECE:
            yield "\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if len(text) > SHOWN:
        lines.append(_ELLIPSIS.format(len(text) - SHOWN))
    yield "\n".join(lines)
