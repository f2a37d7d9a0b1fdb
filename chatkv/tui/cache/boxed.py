"""A pane's title, in the room that the tabs on its border leave."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from chatkv.tui.cache.cells import clip
from chatkv.tui.frame_titles import title_frame


def fitting(title: str, room: int) -> str:
    """``title`` in at most ``room`` cells: of parts between ``·`` the last ones go first."""
    while clip(title, room) != title and " · " in title:
        title = title.rpartition(" · ")[0]
    return clip(title, room)


class Boxed(Widget):
    """Its owner says what room there is; without a word of it there is enough.

    Not the first base of a class: from that Textual takes the style and whether it can have the focus.
    """

    _title = ""
    _room = 1 << 16

    def name_box(self, title: str) -> None:
        """The whole title, plain text."""
        if title != self._title:
            self._title = title
            self._fit_title()

    def leave_room(self, room: int) -> None:
        """Cells that the title may take."""
        if room != self._room:
            self._room = room
            self._fit_title()

    def _fit_title(self) -> None:
        title_frame(self, Content(fitting(self._title, self._room)))
