"""Yes or no."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from chatkv.tui.dialogs.dialog import Dialog
from chatkv.tui.keys.current import bind, hint


class Confirm(Dialog[bool]):
    """Asks ``question``; dismissed with True only where the person says so."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("confirm.yes", "answer(True)"),
        bind("confirm.no", "answer(False)"),
        bind("confirm.other", "app.focus_next"),
    ]

    DEFAULT_CSS = """
    Confirm { align: center middle; }
    Confirm > Vertical {
        width: 60; max-width: 95%; height: auto; border: round $warning; background: $surface; padding: 1 2;
    }
    Confirm Horizontal { height: auto; align-horizontal: right; margin: 1 0 0 0; }
    Confirm Button { margin: 0 0 0 2; min-width: 12; height: 1; border: none; }
    Confirm Button:focus { text-style: reverse bold; }
    """

    def __init__(self, question: str, yes: str) -> None:
        super().__init__()
        self._question = question
        self._yes = yes

    def compose(self) -> ComposeResult:
        """Its parts."""
        with Vertical():
            yield Static(Content(self._question), markup=False)
            with Horizontal():
                yield Button(
                    Content(f"{self._yes} ({hint('confirm.yes')})"), id="yes", variant="error", compact=True
                )
                yield Button(Content(f"Keep ({hint('confirm.no')})"), id="no", compact=True)

    def on_mount(self) -> None:
        """The harmless answer is the one that enter gives."""
        self.query_one("#no").focus()

    def action_answer(self, yes: bool) -> None:
        """By key."""
        self.dismiss(yes)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """By mouse, or enter on a button."""
        event.stop()
        self.dismiss(event.button.id == "yes")
