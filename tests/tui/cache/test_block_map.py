"""The map of the pool: what it draws, how it moves, what it withstands."""

from __future__ import annotations

import numpy as np
import pytest
from textual import events
from textual.pilot import Pilot

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import PrefixReused
from chatkv.tui.cache.block_map import BlockMapView
from chatkv.tui.cache.messages import BlockSelected
from tests.tui.cache.host import Host, colours_of, text_of
from tests.tui.cache.stories import Story, figure


async def press_each(pilot: Pilot[None], view: BlockMapView, steps: list[tuple[str, int]]) -> None:
    for key, block in steps:
        await pilot.press(key)
        assert view.cursor == block, key


async def test_a_glyph_a_block_between_addresses() -> None:
    view = BlockMapView()
    async with Host(view).run_test(size=(40, 8)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        assert view.border_title == "Blocks 22/64 · 8 tok"
        assert text_of(view) == [
            "0000 ========xxxxxxxxx······· 0024",
            "0024 +++++++................. 0048",
            "0048 ................",
            "",
            "",
            "",
        ]


async def test_the_focused_sessions_blocks_stand_out() -> None:
    view = BlockMapView()
    async with Host(view).run_test(size=(40, 8)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        underlined = [s.text for y in (0, 1) for s in view.render_line(y) if s.style and s.style.underline]
        assert "".join(underlined) == "========+++++++"
        view.show(figure().mirror, "poem")
        assert not any(s.style.underline for s in view.render_line(0) if s.style)


@pytest.mark.parametrize("mirror", [None, Mirror()])
async def test_an_empty_map_withstands_every_key(mirror: Mirror | None) -> None:
    view = BlockMapView()
    host = Host(view)
    async with host.run_test(size=(40, 8)) as pilot:
        if mirror is not None:
            view.show(mirror, None)
        await pilot.press("j", "l", "G", "g", "pagedown", "pageup", "d", "enter")
        await pilot.click(view, offset=(7, 1))
        assert text_of(view)[0] == "no cache yet"
        assert host.posted == []


async def test_keys_move_by_cell_row_and_page() -> None:
    view = BlockMapView()
    async with Host(view).run_test(size=(40, 5)) as pilot:
        view.show(Story(num_blocks=240).mirror, None)
        await pilot.press("d")
        assert (view.columns, view.per_cell) == (24, 1)
        await press_each(
            pilot,
            view,
            [
                ("l", 1),
                ("right", 2),
                ("h", 1),
                ("left", 0),
                ("left", 0),
                ("j", 24),
                ("down", 48),
                ("k", 24),
                ("up", 0),
                ("up", 0),
                ("pagedown", 48),
                ("pageup", 0),
                ("G", 239),
                ("down", 239),
                ("right", 239),
                ("g", 0),
                ("end", 239),
                ("home", 0),
            ],
        )
        await pilot.press("G")
        assert text_of(view)[-1].startswith("0216 ")


async def test_enter_asks_for_the_block_under_the_cursor() -> None:
    view = BlockMapView()
    host = Host(view)
    async with host.run_test(size=(40, 8)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.press("j", "l", "enter")
        assert [m.block for m in host.posted if isinstance(m, BlockSelected)] == [25]


async def test_a_click_asks_for_its_block_and_beside_the_cells_for_none() -> None:
    view = BlockMapView()
    host = Host(view)
    async with host.run_test(size=(40, 8)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        for x, y in [(6, 1), (29, 2), (2, 1), (31, 1), (6, 4), (25, 3)]:
            await pilot.click(view, offset=(x, y))
        assert [m.block for m in host.posted if isinstance(m, BlockSelected)] == [0, 47]


async def test_the_wheel_scrolls_and_a_click_counts_from_there() -> None:
    view = BlockMapView()
    host = Host(view)
    async with host.run_test(size=(40, 5)) as pilot:
        view.show(Story(num_blocks=240).mirror, None)
        await pilot.press("d")
        view.post_message(events.MouseScrollDown(view, 5, 2, 0, 0, 0, False, False, False))
        await pilot.pause(0.5)
        top = view.scroll_offset.y
        assert top > 0
        await pilot.click(view, offset=(6, 1))
        assert [m.block for m in host.posted if isinstance(m, BlockSelected)] == [top * 24]


async def test_a_pool_that_does_not_fit_is_drawn_denser_and_opens_where_it_is_entered() -> None:
    view = BlockMapView()
    host = Host(view)
    async with host.run_test(size=(52, 6)) as pilot:
        view.show(Story(num_blocks=1000).mirror, None)
        await pilot.pause()
        assert view.border_title == "Blocks 0/1000 · 7 a cell · 8 tok"
        assert text_of(view)[0] == "0000 " + "." * 40 + " 0280"
        assert text_of(view)[3] == "0840 " + "." * 23
        await pilot.press("j", "l")
        assert view.cursor == 287
        await pilot.press("enter")
        assert (view.per_cell, view.cursor, host.posted) == (1, 287, [])
        assert view.border_title == "Blocks 0/1000 · 8 tok"
        assert any(line.startswith("0256 ") for line in text_of(view))
        await pilot.press("enter")
        assert [m.block for m in host.posted if isinstance(m, BlockSelected)] == [287]
        await pilot.press("d")
        assert view.per_cell == 7


async def test_the_scrollbar_takes_its_room_from_the_cells_not_from_the_address() -> None:
    view = BlockMapView()
    async with Host(view).run_test(size=(52, 6)) as pilot:
        view.show(Story(num_blocks=1000).mirror, None)
        await pilot.press("d")
        width = view.scrollable_content_region.width
        assert width == 49
        assert text_of(view)[0] == "0000 " + "." * 32 + " 0032"


async def test_more_room_shows_each_block() -> None:
    view = BlockMapView()
    async with Host(view).run_test(size=(40, 5)) as pilot:
        view.show(Story(num_blocks=240).mirror, None)
        await pilot.pause()
        assert view.per_cell == 4
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert view.per_cell == 1
        assert view.border_title == "Blocks 0/240 · 8 tok"


async def test_a_dense_cell_shows_what_most_of_its_blocks_are() -> None:
    story = Story(num_blocks=1000)
    story.open(1, "x", 400)
    story.allocate(1, 12)
    view = BlockMapView()
    async with Host(view).run_test(size=(52, 6)) as pilot:
        view.show(story.mirror, "x")
        await pilot.pause()
        assert text_of(view)[0].startswith("0000 ++.....")
        story.allocate(1, 6)
        view.show(story.mirror, "x")
        assert text_of(view)[0].startswith("0000 +++....")


async def test_a_hundred_thousand_blocks() -> None:
    story = Story(num_blocks=100_000, block_size=16)
    view = BlockMapView()
    host = Host(view)
    async with host.run_test(size=(60, 12)) as pilot:
        view.show(story.mirror, None)
        await pilot.press("G", "enter", "G")
        assert view.cursor == 99_999
        assert text_of(view)[-1] == "099960 " + "." * 40 + " 100000"
        story.open(1, "x", 16)
        story.allocate(1, 1)
        view.show(story.mirror, "x")
        await pilot.press("g", "enter")
        assert text_of(view)[0].startswith("000000 +...")
        assert [m.block for m in host.posted if isinstance(m, BlockSelected)] == [0]


async def test_another_mirror_with_a_smaller_pool() -> None:
    view = BlockMapView()
    async with Host(view).run_test(size=(40, 8)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.press("G")
        view.show(Story(num_blocks=5).mirror, "rust")
        assert (view.cursor, text_of(view)[0]) == (4, "0000 .....")
        view.show(Mirror(), None)
        await pilot.press("enter")
        assert text_of(view)[0] == "no cache yet"


async def test_blocks_that_do_not_exist_are_not_drawn() -> None:
    story = figure()
    story.log.emit(PrefixReused, request=4, path=(1,), blocks=np.array([64], np.int32), tokens=8)
    assert len(story.mirror.faults) == 1
    view = BlockMapView()
    async with Host(view).run_test(size=(40, 8)):
        view.show(story.mirror, "rust")
        assert text_of(view)[0] == "0000 ========xxxxxxxxx······· 0024"


async def test_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    view = BlockMapView()
    host = Host(view)
    async with host.run_test(size=(40, 8)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        colours = colours_of(host)
        assert len(colours) > 3
        assert all(red == green == blue for red, green, blue in colours), colours
        assert set("".join(text_of(view))) >= set("=x·+.")


async def test_plus_and_minus_change_the_scale_and_leave_the_cursor_where_it_is() -> None:
    view = BlockMapView()
    async with Host(view).run_test(size=(52, 6)) as pilot:
        view.show(Story(num_blocks=20_000).mirror, None)
        await pilot.pause()
        assert view.border_title == "Blocks 0/20000 · 157 a cell · 8 tok"
        view.go_to(9_000)
        scales = []
        for _ in range(9):
            await pilot.press("plus")
            scales.append(view.per_cell)
            assert view.cursor == 9_000
            row = view.cursor // view.per_cell // view.columns - view.scroll_offset.y
            assert 0 <= row < view.size.height
        assert scales == [128, 64, 32, 16, 8, 4, 2, 1, 1]
        assert view.border_title == "Blocks 0/20000 · 8 tok"
        await pilot.press("minus", "minus")
        assert view.border_title == "Blocks 0/20000 · 4 a cell · 8 tok"
        await pilot.press(*["minus"] * 9)
        assert (view.per_cell, view.scroll_offset.y) == (157, 0)


async def test_zooming_keeps_the_row_of_the_cursor() -> None:
    view = BlockMapView()
    async with Host(view).run_test(size=(52, 12)) as pilot:
        view.show(Story(num_blocks=20_000).mirror, None)
        await pilot.press("d")
        view.go_to(10_000)
        view.scroll_to(y=view.cursor // view.columns - 3, animate=False, force=True)
        await pilot.press("minus")
        assert view.cursor // view.per_cell // view.columns - view.scroll_offset.y == 3
        await pilot.press("plus")
        assert view.cursor // view.columns - view.scroll_offset.y == 3


async def test_ctrl_and_the_wheel_zoom() -> None:
    view = BlockMapView()
    async with Host(view).run_test(size=(52, 6)) as pilot:
        view.show(Story(num_blocks=1000).mirror, None)
        await pilot.pause()
        await pilot._post_mouse_events([events.MouseScrollUp], widget=view, offset=(5, 2), control=True)
        assert view.per_cell == 4
        await pilot._post_mouse_events([events.MouseScrollDown], widget=view, offset=(5, 2), control=True)
        assert view.per_cell == 7
