"""A line of keys and what they do, under a dialog."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size
from textual.widgets import Static

from chatkv.tui.cache.cells import folded


class Hints(Static):
    """``enter open · f2 rename · del delete``; a line ends between two of them, never within one."""

    DEFAULT_CSS = """
    Hints { width: 1fr; height: auto; color: $text-muted; }
    """

    def __init__(self, *hints: str) -> None:
        super().__init__(classes="keys", markup=False)
        self._hints = hints

    def show(self, *hints: str) -> None:
        """These from now on."""
        if hints != self._hints:
            self._hints = hints
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines at this width; one that is wider by itself is wrapped."""
        return sum(max(1, len(Content(line).wrap(max(1, width)))) for line in self._lines(width))

    def render(self) -> Content:
        """In the width there is."""
        return Content("\n".join(self._lines(self.content_size.width)))

    def _lines(self, width: int) -> list[str]:
        return folded(((" · ", hint) for hint in self._hints), width)
