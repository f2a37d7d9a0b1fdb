"""A block of code: highlighted, and moved sideways where it is wider than its room."""

from __future__ import annotations

from textual.content import Content
from textual.highlight import ANSIDarkHighlightTheme, ANSILightHighlightTheme, HighlightTheme, highlight

from chatkv.tui.chat.rows import Laid
from chatkv.tui.chat.wide import Wide


class Fence(Wide):
    """``language`` as the fence names it; empty: it is guessed."""

    below = 1

    def __init__(self, code: str, language: str, dark: bool, ansi: bool) -> None:
        super().__init__(("fence",))
        theme = (ANSIDarkHighlightTheme if dark else ANSILightHighlightTheme) if ansi else HighlightTheme
        text = highlight(code, language=language or None, theme=theme)
        self._code = [line.expand_tabs(8) for line in text.split(allow_blank=True)] or [Content("")]

    def lay(self, width: int) -> Laid:
        """See the base class."""
        return self.lay_lines(self._code, width)
