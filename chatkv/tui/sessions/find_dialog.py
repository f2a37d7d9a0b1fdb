"""A dialog with a line to type in and a list: the cursor moves while the line has the focus."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import OptionList

from chatkv.tui.keys.current import bind

T = TypeVar("T")


class FindDialog(ModalScreen[T | None]):
    """Dismissed with what was chosen, or None. A subclass has a ``Vertical`` with a ``LineInput``, an
    ``OptionList`` and a line of class ``keys``.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("dialog.close", "cancel"),
        bind("find.down", "move(1)", priority=True),
        bind("find.up", "move(-1)", priority=True),
    ]

    DEFAULT_CSS = """
    FindDialog { align: center middle; }
    FindDialog > Vertical {
        max-width: 95%; height: 80%; border: round $accent; background: $surface; padding: 0 1;
        border-title-color: $accent;
    }
    FindDialog Input, FindDialog Input:focus {
        border: none; height: 1; background: $panel; padding: 0 1; margin: 0 0 1 0;
    }
    FindDialog OptionList { height: 1fr; border: none; background: transparent; padding: 0; }
    FindDialog OptionList > .option-list--option { padding: 0; }
    FindDialog .keys { height: auto; color: $text-muted; }
    """

    def action_move(self, by: int) -> None:
        """The cursor of the list, while the line keeps the focus."""
        options = self.query_one(OptionList)
        if by > 0:
            options.action_cursor_down()
        else:
            options.action_cursor_up()

    def action_cancel(self) -> None:
        """Close with nothing chosen."""
        self.dismiss(None)
