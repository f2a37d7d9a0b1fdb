"""A dialog around a list: its cursor moves by keys that need not be the list's own."""

from __future__ import annotations

from typing import TypeVar

from textual.widgets import OptionList

from chatkv.tui.dialogs.dialog import Dialog

T = TypeVar("T")


class ListDialog(Dialog[T | None]):
    """Dismissed with what was chosen, or None. A subclass has an ``OptionList``, and binds the keys."""

    DEFAULT_CSS = """
    ListDialog { align: center middle; }
    ListDialog OptionList > .option-list--option { padding: 0; }
    """

    def action_cursor(self, by: int) -> None:
        """Down or up, wherever the focus is."""
        options = self.query_one(OptionList)
        if by > 0:
            options.action_cursor_down()
        else:
            options.action_cursor_up()

    def action_cancel(self) -> None:
        """Close with nothing chosen."""
        self.dismiss(None)
