"""The list of sessions at the left of a wide screen."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from chatkv.tui.keys.current import bind, hint
from chatkv.tui.sessions.item import Item


class SessionPanel(OptionList):
    """Enter or a click switches; delete asks; ``o`` sorts; ``/`` opens the list with a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("move.down", "cursor_down"),
        bind("move.up", "cursor_up"),
        bind("move.first", "first"),
        bind("move.last", "last"),
        bind("pane.filter", "app.sessions", "Filter"),
        bind("list.delete", "remove", "Delete"),
        bind("pane.sort", "app.sort_sessions", "Sort"),
        bind("list.undo", "app.undelete"),
    ]

    DEFAULT_CSS = """
    SessionPanel, SessionPanel:focus {
        border: round $frame; background: transparent; padding: 0;
        border-title-color: $text-muted; border-subtitle-color: $text-muted; scrollbar-size-vertical: 1;
    }
    SessionPanel:focus { border: round $accent; border-title-color: $accent; }
    SessionPanel > .option-list--option { padding: 0; }
    """

    class Picked(Message):
        """Switch to the session ``key``."""

        def __init__(self, key: str) -> None:
            self.key = key
            super().__init__()

    class DeleteWanted(Message):
        """The person wants the session ``key`` gone; ask first."""

        def __init__(self, key: str) -> None:
            self.key = key
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._shown: tuple[tuple[Item, ...], int] = ((), 0)
        self._order = "opened"

    def on_mount(self) -> None:
        """Name the box."""
        self.border_title = "Sessions"
        self.border_subtitle = f"{hint('pane.filter')} filter · hit %"

    def on_resize(self) -> None:
        """The rows are as wide as the box."""
        self.show(self._shown[0], self._order)

    def show(self, items: tuple[Item, ...], order: str = "opened") -> None:
        """Show these from now on, sorted by ``order``; the cursor stays on its session."""
        if order != self._order:
            self._order = order
            self.border_title = "Sessions" if order == "opened" else f"Sessions · {order}"
        width = self.scrollable_content_region.width
        if (items, width) == self._shown:
            return
        if not width:
            # Nobody sees it: the rows are made when there is room for them (``on_resize``).
            self._shown = (items, width)
            return
        self._shown = (items, width)
        keep = self.highlighted_key
        self.set_options([Option(item.row(width), id=item.key) for item in items])
        keys = [item.key for item in items]
        current = next((i for i, item in enumerate(items) if item.current), None)
        self.highlighted = keys.index(keep) if self.has_focus and keep in keys else current

    @property
    def highlighted_key(self) -> str | None:
        """The session under the cursor."""
        if self.highlighted is None or self.highlighted >= self.option_count:
            return None
        return self.get_option_at_index(self.highlighted).id

    def action_remove(self) -> None:
        """Ask to delete the one under the cursor."""
        if (key := self.highlighted_key) is not None:
            self.post_message(self.DeleteWanted(key))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id is not None:
            self.post_message(self.Picked(event.option_id))
