"""The modal list of sessions: filter by name or by what was said, switch, rename, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from chatkv.text import one_line
from chatkv.tui.dialogs.ask_line import LineInput
from chatkv.tui.hints import Hints
from chatkv.tui.keys.current import bind, keys_of, short
from chatkv.tui.sessions.book import SessionBook
from chatkv.tui.sessions.find_dialog import FindDialog
from chatkv.tui.sessions.item import items
from chatkv.tui.sessions.session import Session

_AROUND = 24
_HINTS = {
    "rename": "rename",
    "picker.delete": "delete",
    "picker.undo": "undo",
    "picker.sort": "sort",
    "search": "search",
    "new": "new",
}


def found(session: Session, wanted: str) -> str | None:
    """Where ``wanted`` (any case) is in ``session``: "" in its name, a snippet of a message, None nowhere."""
    needle = wanted.casefold()
    if needle in session.name.casefold():
        return ""
    for message in reversed(session.conversation.path()):
        at = message.text.casefold().find(needle)
        if at >= 0:
            start = max(0, at - _AROUND)
            return one_line(message.text[start : at + len(wanted) + _AROUND * 2], 56)
    return None


class SessionPicker(FindDialog[str]):
    """Dismissed with the key of the session to switch to, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("picker.delete", "remove", "Delete", priority=True),
        bind("rename", "rename", "Rename", priority=True),
        bind("new", "new", "New", priority=True),
        bind("picker.undo", "undelete", "Undo", priority=True),
        bind("picker.sort", "sort", "Sort", priority=True),
        bind("search", "search", "Search", priority=True),
        bind("sessions", "cancel", priority=True),
    ]

    DEFAULT_CSS = """
    SessionPicker > Vertical { width: 76; max-height: 30; border-subtitle-color: $text-muted; }
    """

    def __init__(
        self,
        book: SessionBook,
        rename: Callable[[str], None],
        delete: Callable[[str], None],
        undelete: Callable[[], Awaitable[None]],
        search: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._book = book
        self._rename, self._delete, self._undelete, self._search = rename, delete, undelete, search

    def compose(self) -> ComposeResult:
        """Its parts."""
        with Vertical() as box:
            box.border_title = f"Sessions · {self._book.order}"
            box.border_subtitle = "hit %"
            yield LineInput(placeholder="filter by name, or by what was said")
            yield OptionList(markup=False)
            yield Hints("enter open", *(f"{short(id)} {word}" for id, word in _HINTS.items() if keys_of(id)))

    def on_mount(self) -> None:
        """All of them at first."""
        self.call_after_refresh(self.refill)

    def on_resize(self) -> None:
        """The rows are as wide as the box."""
        self.call_after_refresh(self.refill)

    def on_screen_resume(self) -> None:
        """Back from a dialog: names may have changed."""
        self.refill()

    @on(Input.Changed)
    def refill(self) -> None:
        """Show the sessions that the filter lets through."""
        options = self.query_one(OptionList)
        wanted = self.query_one(Input).value.strip()
        book = self._book
        keep = self._highlighted
        width = max(20, options.scrollable_content_region.width - 1)
        rows: list[Option] = []
        listed = book.listed()
        for (_, session), item in zip(listed, items(listed, book.current), strict=True):
            where = found(session, wanted) if wanted else ""
            if where is None:
                continue
            text = item.row(width)
            if where:
                text = text + Content(f"\n       …{where}").stylize("dim")
            rows.append(Option(text, id=session.key))
        options.set_options(rows)
        keys = [option.id for option in rows]
        first = keep if keep in keys else book.current.key if book.current.key in keys else None
        options.highlighted = keys.index(first) if first is not None else (0 if rows else None)

    @property
    def _highlighted(self) -> str | None:
        options = self.query_one(OptionList)
        at = options.highlighted
        return None if at is None or at >= options.option_count else options.get_option_at_index(at).id

    def action_new(self) -> None:
        """A new session, and close."""
        self.dismiss(self._book.new().key)

    def action_remove(self) -> None:
        """Delete the one under the cursor (the app asks first)."""
        if (key := self._highlighted) is not None:
            self._delete(key)

    def action_rename(self) -> None:
        """Rename the one under the cursor."""
        if (key := self._highlighted) is not None:
            self._rename(key)

    async def action_undelete(self) -> None:
        """Bring back the one deleted last; the list stays."""
        await self._undelete()
        self.refill()

    def action_sort(self) -> None:
        """The next order."""
        self._book.next_order()
        self.query_one(Vertical).border_title = f"Sessions · {self._book.order}"
        self.refill()

    def action_search(self) -> None:
        """Search all that was said for what the filter says."""
        wanted = self.query_one(Input).value
        self.dismiss(None)
        self._search(wanted)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.dismiss(self._highlighted)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)
