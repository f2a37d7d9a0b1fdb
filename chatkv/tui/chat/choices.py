"""The list over the prompt: what can be put in for what is being typed."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from chatkv.text import one_line
from chatkv.tui.chat.offers import Choice

ROWS = 6


class Choices(Widget):
    """Shown while there are any. The prompt keeps the focus, and says which one is marked."""

    DEFAULT_CSS = """
    Choices { height: auto; max-height: 6; padding: 0 2; background: $surface; display: none; }
    Choices.some { display: block; }
    """

    class Picked(Message):
        """The person clicked choice ``index``."""

        def __init__(self, index: int) -> None:
            self.index = index
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._choices: tuple[Choice, ...] = ()
        self._at = 0

    def show(self, choices: tuple[Choice, ...], at: int) -> None:
        """Show these, ``at`` marked, from now on."""
        if (choices, at) == (self._choices, self._at):
            return
        taller = min(len(choices), ROWS) != min(len(self._choices), ROWS)
        self._choices, self._at = choices, at
        self.set_class(bool(choices), "some")
        self.refresh(layout=taller)

    @property
    def first(self) -> int:
        """The topmost one that is seen."""
        return max(0, min(self._at - ROWS // 2, len(self._choices) - ROWS))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A row each."""
        return min(len(self._choices), ROWS)

    def render(self) -> Content:
        """As drawn now."""
        width = self.content_size.width
        seen = self._choices[self.first : self.first + ROWS]
        texts = [one_line(choice.text, 200) for choice in seen]
        column = min(max(map(cell_len, texts), default=0), max(12, width // 2))
        rows: list[Content] = []
        for index, (choice, text) in enumerate(zip(seen, texts, strict=True), self.first):
            marked = index == self._at
            name = Content(f"{'▸' if marked else ' '} {set_cell_size(text, column)}")
            more = (
                "" if self.first + ROWS >= len(self._choices) or index != self.first + ROWS - 1 else "↓ more"
            )
            hint = one_line(choice.hint, max(0, width - column - 6 - len(more)))
            rows.append(
                Content.assemble(
                    name.stylize("bold $accent") if marked else name,
                    (f"  {hint}", "$text-muted"),
                    (f"  {more}" if more else "", "$text-muted"),
                )
            )
        return Content("\n").join(rows)

    def on_click(self, event: Click) -> None:
        """Take what is under the mouse."""
        event.stop()
        index = self.first + event.y
        if index < len(self._choices):
            self.post_message(self.Picked(index))
