"""Ask for one line of text."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from chatkv.text import one_line
from chatkv.tui.dialogs.dialog import Dialog
from chatkv.tui.hints import Hints
from chatkv.tui.keys.current import bind, hint
from chatkv.tui.keys_in_order import obey_now


class LineInput(Input):
    """An input whose keys act in order."""

    async def _on_key(self, event: events.Key) -> None:
        await obey_now(self, event)

    def _on_paste(self, event: events.Paste) -> None:
        """In one printable line, as much of it as there is room for. Textual takes the first line, even an
        empty one, and nothing of what is too long.
        """
        event.prevent_default()
        event.stop()
        start, end = sorted(self.selection)
        room = (self.max_length or len(event.text)) - len(self.value) + end - start
        if text := one_line(event.text, max(1, len(event.text)))[: max(0, room)]:
            self.replace(text, start, end)


class AskLine(Dialog[str | None]):
    """Dismissed with the line, or None where the person thought better of it."""

    BINDINGS: ClassVar[list[BindingType]] = [bind("dialog.close", "cancel")]

    DEFAULT_CSS = """
    AskLine { align: center middle; }
    AskLine > Vertical {
        width: 60; max-width: 95%; height: auto; border: round $accent; background: $surface;
        padding: 0 1; border-title-color: $accent;
    }
    AskLine Input, AskLine Input:focus { border: none; height: 1; background: $panel; padding: 0 1; }
    AskLine Hints { margin: 1 0 0 0; }
    """

    def __init__(self, title: str, value: str, limit: int) -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._limit = limit

    def compose(self) -> ComposeResult:
        """Its parts."""
        with Vertical() as box:
            box.border_title = Content(self._title)
            yield LineInput(self._value, max_length=self._limit)
            yield Hints("enter keep", f"{hint('dialog.close')} cancel")

    def action_cancel(self) -> None:
        """Escape."""
        self.dismiss(None)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value)
