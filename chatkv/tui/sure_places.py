"""Text that stays in its cells on every terminal.

How wide a character is, terminals do not agree on: a heart with a variation selector, a hand with a skin
tone or a syllable of Hindi takes one cell here and two or four there. What follows it in a row would be drawn
beside its place, into another pane, and stay there until that is drawn anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.strip import Strip

_UNSURE = (
    "\u00ad\u0300-\u036f\u0483-\u0489\u0590-\u1dff\u200b-\u200f\u2028-\u202e\u2060-\u206f\u20d0-\u20ff"
    "\u302a-\u302f\u3099\u309a\ua640-\uabff\ud7b0-\ud7ff\ue000-\uf8ff\ufb00-\ufe2f\ufe70-\ufeff\uffef-\uffff"
    "\U00010000-\U0010ffff"
)
_ANY = re.compile(f"[{_UNSURE}]")
_PARTS = re.compile(f"[^{_UNSURE}]*[{_UNSURE}]+|[^{_UNSURE}]+")


def placed(strip: Strip, x: int, y: int, console: Console) -> str:
    """``strip`` for a terminal whose cursor is at (``x``, ``y``), where it begins."""
    if not _ANY.search(strip.text):
        return strip.render(console)
    return "".join(_pieces(strip, x, y, console))


def _pieces(strip: Strip, x: int, y: int, console: Console) -> Iterator[str]:
    for segment in strip:
        text, style, control = segment
        if control or not _ANY.search(text):
            yield Strip([segment]).render(console)
            x += segment.cell_length
            continue
        # Blanks first: a character that is narrower than it is taken for leaves a cell as it was.
        yield Strip([Segment(" " * segment.cell_length, style)]).render(console)
        for part in _PARTS.findall(text):
            yield _move(x, y) + Strip([Segment(part, style)]).render(console)
            x += cell_len(part)
        yield _move(x, y)


def _move(x: int, y: int) -> str:
    return f"\x1b[{y + 1};{x + 1}H"


class PlacedLayout(LayoutUpdate):
    """The whole screen."""

    def render_segments(self, console: Console) -> str:
        """See the base class."""
        out: list[str] = []
        for y, line in enumerate(self.strips, self.region.y):
            x = self.region.x
            out.append(_move(x, y))
            for strip in line:
                out.append(placed(strip, x, y, console))
                x += strip.cell_length
        return "".join(out)


class PlacedChops(ChopsUpdate):
    """Parts of rows."""

    def render_segments(self, console: Console) -> str:
        """See the base class."""
        out: list[str] = []
        for y, x1, x2 in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x > x2 or end <= x1:
                    continue
                if end > x2 or x == x2:
                    strip = strip.crop(0, min(end, x2) - x)
                out.append(_move(x, y) + placed(strip, x, y, console))
        return "".join(out)
