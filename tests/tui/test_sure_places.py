"""What lies beside text of doubtful width is drawn at its place, however wide the terminal takes that."""

from __future__ import annotations

import re

import pytest
from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate
from textual.geometry import Region
from textual.strip import Strip

from chatkv.tui.sure_places import PlacedChops, PlacedLayout

DOUBTFUL = [
    "❤️ heart",
    "👍🏽 hand",
    "नमस्ते",
    "soft\xadhyphen",
    "e\u0301",
    "👨‍👩‍👧",
    "🇩🇪 flag",
    "zero\u200bwidth",
]


def seen(written: str, wide: int, columns: int = 20) -> list[str]:
    """The one row of a terminal to which every doubtful character is ``wide`` cells."""
    row = ["?"] * columns
    x = 0
    for column, character in re.findall(r"\x1b\[\d+;(\d+)H|\x1b\[[\d;]*m|([^\x1b])", written):
        if column:
            x = int(column) - 1
        elif character and character.isascii():
            row[x] = character
            x += 1
        elif character:
            x += wide
    return row


@pytest.mark.parametrize("wide", [0, 1, 2])
@pytest.mark.parametrize("text", DOUBTFUL)
def test_what_stands_behind_it_is_where_it_belongs(text: str, wide: int) -> None:
    left = Strip([Segment(text), Segment("|")]).adjust_cell_length(14)
    right = Strip([Segment("[pane]")])
    bar = left.cell_length - 1 - left.text[::-1].index("|")
    console = Console(width=20)
    whole = PlacedLayout([[left, right]], Region(0, 0, 20, 1)).render_segments(console)
    part = PlacedChops([{0: left, 14: right}], [(0, 0, 14)], [[14, 20]]).render_segments(console)
    for row in (seen(whole, wide), seen(part, wide)):
        assert row[bar] == "|"
        assert "?" not in row[:14]
    assert "".join(seen(whole, wide)[14:]) == "[pane]"
    assert seen(part, wide)[14:] == ["?"] * 6


def test_other_text_is_written_as_before() -> None:
    console = Console(width=20)
    chops = [{0: Strip([Segment("漢字 ✓ ·│")]).adjust_cell_length(14), 14: Strip([Segment("[pane]")])}]
    spans = [(0, 2, 17)]
    assert PlacedChops(chops, spans, [[14, 20]]).render_segments(console) == ChopsUpdate(
        chops, spans, [[14, 20]]
    ).render_segments(console)
