"""The sessions as chips in one row: ``1 rust help ●  2 poem  3 rust help ⑂1``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widget import Widget

from chatkv.text import one_line
from chatkv.tui.sessions.session import Session

_NAME = 18


@dataclass(frozen=True, slots=True)
class Chip:
    """What one session looks like in a list."""

    key: str
    number: int
    name: str
    mark: str
    """``●`` an answer is running, ``○`` one has come that was not seen, else a blank."""
    current: bool
    hit: int | None

    @property
    def text(self) -> str:
        """As drawn in the row."""
        return f" {self.number} {self.name}{' ' + self.mark if self.mark.strip() else ''} "


def chips_of(sessions: Sequence[Session], current: Session, limit: int = _NAME) -> tuple[Chip, ...]:
    """One chip a session, in order; names in one printable line of at most ``limit`` characters."""
    return tuple(
        Chip(
            s.key,
            number,
            one_line(s.name, limit),
            "●" if s.running else "○" if s.unread else " ",
            s is current,
            s.hit_percent,
        )
        for number, s in enumerate(sessions, 1)
    )


class SessionChips(Widget):
    """One line; a click picks a session. Where not all fit, those around the current one are shown."""

    COMPONENT_CLASSES = frozenset({"chips--current", "chips--other", "chips--more"})

    DEFAULT_CSS = """
    SessionChips { height: 1; width: 1fr; }
    SessionChips > .chips--current { background: $accent; color: $background; text-style: bold; }
    SessionChips > .chips--other { color: $text-muted; background: $panel; }
    SessionChips > .chips--more { color: $text-disabled; }
    """

    class Picked(Message):
        """The person clicked the session ``key``."""

        def __init__(self, key: str) -> None:
            self.key = key
            super().__init__()

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._chips: tuple[Chip, ...] = ()
        self._spans: list[tuple[int, int, str]] = []

    def show(self, chips: tuple[Chip, ...]) -> None:
        """Show these from now on."""
        if chips != self._chips:
            self._chips = chips
            self.refresh()

    def window(self, width: int) -> tuple[int, int]:
        """``(first, end)`` of the chips that fit ``width`` cells around the current one."""
        sizes = [cell_len(chip.text) + 1 for chip in self._chips]
        at = next((i for i, chip in enumerate(self._chips) if chip.current), 0)
        if sum(sizes) - 1 <= width or not sizes:
            return 0, len(sizes)
        first, end, used = at, at + 1, sizes[at] + 4
        while True:
            if first > 0 and used + sizes[first - 1] <= width:
                first -= 1
                used += sizes[first]
            elif end < len(sizes) and used + sizes[end] <= width:
                used += sizes[end]
                end += 1
            else:
                return first, end

    def render(self) -> Content:
        width = self.content_size.width
        first, end = self.window(width)
        pieces: list[Content] = []
        self._spans.clear()
        x = 0
        if first > 0:
            pieces.append(Content("‹ ").stylize(self.get_visual_style("chips--more")))
            x += 2
        for chip in self._chips[first:end]:
            style = self.get_visual_style("chips--current" if chip.current else "chips--other")
            pieces.append(Content(chip.text).stylize(style))
            self._spans.append((x, x + cell_len(chip.text), chip.key))
            x += cell_len(chip.text) + 1
            pieces.append(Content(" "))
        if end < len(self._chips):
            pieces.append(Content("›").stylize(self.get_visual_style("chips--more")))
        return Content("").join(pieces)

    def on_click(self, event: Click) -> None:
        """Pick the session under the mouse."""
        event.stop()
        for start, end, key in self._spans:
            if start <= event.x < end:
                self.post_message(self.Picked(key))
