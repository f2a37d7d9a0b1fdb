"""One line of figures under the screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chatkv.tui.cache.cells import join_that_fit
from chatkv.tui.chat.figures import seconds
from chatkv.tui.row_widget import Piece, RowWidget


@dataclass(frozen=True, slots=True)
class StatusValues:
    """What the line shows; a part whose value is None is left out.

    ``context`` and ``hit`` are (tokens, of how many); ``message`` stands before everything else.
    """

    tokens_per_s: float | None = None
    ttft_s: float | None = None
    context: tuple[int, int] | None = None
    hit: tuple[int, int] | None = None
    kv_bytes: int | None = None
    pinned: int | None = None
    message: str = ""


def human_bytes(count: int) -> str:
    """``12.1 MiB``: binary units, one digit after the point from KiB on."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


class StatusLine(RowWidget):
    """Figures of the focused session; on a narrow screen the less important ones are dropped."""

    DEFAULT_CSS = """
    StatusLine {
        height: 1;
        padding: 0 1;
        color: $foreground;
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._values = StatusValues()

    def show(self, values: StatusValues) -> None:
        """Show these values from now on."""
        if values != self._values:
            self._values = values
            self.changed()

    def line(self, width: int) -> str:
        """What is shown in ``width`` cells."""
        v = self._values
        parts: list[tuple[str, int]] = []
        if v.message:
            parts.append((v.message, 9))
        if v.tokens_per_s is not None:
            parts.append((f"{v.tokens_per_s:.1f} tok/s", 8))
        if v.ttft_s is not None:
            parts.append((f"ttft {seconds(v.ttft_s)}", 6))
        if v.context is not None:
            parts.append((f"ctx {v.context[0]}/{v.context[1]}", 5))
        if v.hit is not None:
            hit, of = v.hit
            share = f" ({100 * hit // of}%)" if of else ""
            parts.append((f"hit {hit}/{of}{share}", 7))
        if v.kv_bytes is not None:
            parts.append((f"kv {human_bytes(v.kv_bytes)}", 4))
        if v.pinned is not None:
            parts.append((f"pinned {v.pinned}", 3))
        return join_that_fit(parts, " · ", width) if parts else ""

    def rows(self, width: int) -> Sequence[Sequence[Piece]]:
        """See the base class."""
        return [[(self.line(width), "")]]
