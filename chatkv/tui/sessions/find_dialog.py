"""A dialog with a line to type in and a list: the cursor moves while the line has the focus."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.binding import BindingType

from chatkv.tui.dialogs.list_dialog import ListDialog
from chatkv.tui.keys.current import bind

T = TypeVar("T")


class FindDialog(ListDialog[T]):
    """A subclass has a ``Vertical`` with a ``LineInput``, an ``OptionList`` and ``Hints``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("dialog.close", "cancel"),
        bind("find.down", "cursor(1)", priority=True),
        bind("find.up", "cursor(-1)", priority=True),
    ]

    DEFAULT_CSS = """
    FindDialog > Vertical {
        max-width: 95%; height: 80%; border: round $accent; background: $surface; padding: 0 1;
        border-title-color: $accent;
    }
    FindDialog Input, FindDialog Input:focus {
        border: none; height: 1; background: $panel; padding: 0 1; margin: 0 0 1 0;
    }
    FindDialog OptionList { height: 1fr; border: none; background: transparent; padding: 0; }
    """
