"""The legend and the status line: what they say, and what they leave out when there is no room."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from chatkv.tui.cache.legend import Legend
from chatkv.tui.cache.status import StatusLine, StatusValues, human_bytes
from tests.tui.cache.host import Host, text_of

FULL = StatusValues(
    tokens_per_s=38.24,
    ttft_s=0.041,
    context=(406, 2048),
    hit=(384, 406),
    kv_bytes=12_687_769,
    pinned=0,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (12_687_769, "12.1 MiB"), (5 << 40, "5.0 TiB")],
)
def test_bytes_for_people(count: int, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (100, "38.2 tok/s · ttft 41 ms · ctx 406/2048 · hit 384/406 (94%) · kv 12.1 MiB · pinned 0"),
        (80, "38.2 tok/s · ttft 41 ms · ctx 406/2048 · hit 384/406 (94%) · kv 12.1 MiB"),
        (60, "38.2 tok/s · ttft 41 ms · ctx 406/2048 · hit 384/406 (94%)"),
        (45, "38.2 tok/s · ttft 41 ms · hit 384/406 (94%)"),
        (31, "38.2 tok/s · hit 384/406 (94%)"),
        (15, "38.2 tok/s"),
        (7, "38.2 t…"),
        (0, ""),
    ],
)
def test_the_status_line_drops_what_matters_least(width: int, text: str) -> None:
    line = StatusLine()
    line.show(FULL)
    assert line.line(width) == text


async def test_the_status_line_at_eighty_columns() -> None:
    line = StatusLine()
    async with Host(line).run_test(size=(80, 5)) as pilot:
        line.styles.border = ("none", "black")
        line.show(FULL)
        await pilot.pause()
        assert line.size.width == 78
        assert text_of(line) == ["38.2 tok/s · ttft 41 ms · ctx 406/2048 · hit 384/406 (94%) · kv 12.1 MiB"]


def test_the_status_line_says_nothing_of_what_is_not_known() -> None:
    line = StatusLine()
    assert line.line(80) == ""
    line.show(StatusValues(context=(0, 0), hit=(0, 0)))
    assert line.line(80) == "ctx 0/0 · hit 0/0"


def test_a_message_stands_first_and_is_only_text() -> None:
    line = StatusLine()
    line.show(StatusValues(message="2 [b]waiting\x1b[2J\n所有", tokens_per_s=1.0))
    assert line.line(80) == "2 [b]waiting[2J所有 · 1.0 tok/s"
    assert cell_len(line.line(20)) <= 20


async def test_the_legend_names_the_glyphs_and_the_moment() -> None:
    legend = Legend()
    async with Host(legend).run_test(size=(100, 5)) as pilot:
        legend.styles.border = ("none", "black")
        legend.show(1842)
        await pilot.pause()
        glyphs = "= reused  + new  x evicted  # locked  · idle  . free  ~ copied  * pinned"
        assert text_of(legend)[0] == f"{glyphs}{' ' * 11}seq 1842 ▶ LIVE"
        legend.show(1600, 1842)
        await pilot.pause()
        assert text_of(legend)[0].endswith("seq 1600/1842 ‖ PAUSED")


@pytest.mark.parametrize("width", [0, 5, 15, 40, 58, 78, 98])
def test_the_legend_leaves_out_whole_entries_but_never_the_moment(width: int) -> None:
    legend = Legend()
    legend.show(1842)
    pieces = legend.line(width)
    text = "".join(piece for piece, _ in pieces)
    assert cell_len(text) == width
    assert text.endswith("seq 1842 ▶ LIVE") or width < 15
    assert all(piece == f"{look.glyph} {look.word}" for piece, look in pieces if look)
