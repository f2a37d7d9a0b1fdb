"""Panes resize, hide, share places; all of it is kept for the next time."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.events import Key, Paste
from textual.geometry import Offset, Region

from chatkv.tui import panes_kept
from chatkv.tui.layout import CACHE_PANES, PANES, Arrangement
from chatkv.tui.palette import entries
from chatkv.tui.remembered import Remembered
from chatkv.tui.sized_screen import SizedScreen
from tests.tui.helpers import Bench


def box(bench: Bench, pane: str) -> Region:
    return bench.app.main.query_one(f"#{pane}").region


async def drag(bench: Bench, start: tuple[int, int], end: tuple[int, int]) -> None:
    await bench.pilot.mouse_down(offset=start)
    middle = ((start[0] + end[0]) // 2, (start[1] + end[1]) // 2)
    await bench.pilot.hover(offset=middle)
    await bench.pilot.hover(offset=end)
    await bench.pilot.mouse_up(offset=end)
    await bench.settle()


# -- sizes -----------------------------------------------------------------------------------


async def test_keys_move_the_borders(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("escape")
        before = box(bench, "chat").width
        await bench.press("ctrl+right")
        assert box(bench, "chat").width == before + 3
        await bench.press("left_curly_bracket", "left_curly_bracket")
        assert box(bench, "chat").width == before - 3
        await bench.press("f6")
        tree = box(bench, "tree")
        await bench.press("right_parenthesis", "right_parenthesis")
        assert box(bench, "tree").height == tree.height + 2
        await bench.press("ctrl+up")
        assert box(bench, "tree").height == tree.height + 1
        # The last one in a column has no border behind it: the one before it moves.
        await bench.press("f6", "f6")
        metrics = box(bench, "metrics").height
        await bench.press("ctrl+up")
        assert box(bench, "metrics").height == metrics + 1
        await bench.press("0")
        assert box(bench, "chat").width == before
        assert box(bench, "tree").height == tree.height


async def test_sizes_end_where_a_pane_could_not_be_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(100, 30)):
        await bench.press("escape", *["ctrl+left"] * 40)
        assert box(bench, "chat").width == 16
        await bench.press(*["ctrl+right"] * 60)
        assert box(bench, "tree").width == 16
        assert box(bench, "chat").width == 84


async def test_dragging_a_border(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        main = bench.app.main
        tree, chat = box(bench, "tree"), box(bench, "chat")
        await drag(bench, (chat.right - 1, 10), (chat.right + 9, 14))
        assert box(bench, "chat").right == chat.right + 10
        assert bench.app.focused is main.prompt
        assert main.get_selected_text() is None
        # Its title is the upper border of a pane.
        await drag(bench, (90, tree.bottom), (90, tree.bottom - 3))
        assert box(bench, "tree").bottom == tree.bottom - 3
        assert bench.app.mouse_captured is None
        # What is inside a pane is no border.
        await drag(bench, (10, 5), (20, 5))
        assert box(bench, "chat").right == chat.right + 10


async def test_dragging_inner_borders_of_a_wide_screen(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(200, 50)):
        table, node, sessions = box(bench, "table"), box(bench, "node"), box(bench, "sessions")
        await drag(bench, (node.x, node.y + 3), (node.x - 8, node.y + 3))
        assert box(bench, "node").x == node.x - 8
        await drag(bench, (table.x + 4, table.bottom - 1), (table.x + 4, table.bottom + 1))
        assert box(bench, "table").height == table.height + 2
        await drag(bench, (sessions.right, 20), (sessions.right + 6, 20))
        assert box(bench, "sessions").width == sessions.width + 6


async def test_another_size_of_terminal_keeps_the_proportions(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(120, 36)) as pilot:
        await bench.press("escape", *["ctrl+right"] * 5)
        share = box(bench, "chat").width / 120
        await pilot.resize_terminal(160, 39)
        await bench.settle()
        assert box(bench, "chat").width / 160 == pytest.approx(share, abs=0.01)


async def test_clicks_on_borders_and_titles(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        await bench.press("escape", "ctrl+right")
        chat = box(bench, "chat")
        await pilot.click(offset=(chat.right - 1, 12), times=2)
        await bench.settle()
        assert box(bench, "chat").right == chat.right - 3
        blocks = box(bench, "blocks")
        await pilot.click(offset=Offset(blocks.x + 4, blocks.y))
        await bench.settle()
        assert bench.app.focused is bench.app.main.cache.blocks
        assert box(bench, "blocks") == blocks
        await pilot.click(offset=Offset(blocks.x + 4, blocks.y), times=2)
        await bench.settle()
        assert bench.app.main.seen == ["blocks"]
        await pilot.click(offset=Offset(4, box(bench, "blocks").y), times=2)
        await bench.settle()
        assert box(bench, "blocks") == blocks


# -- places that are shared ------------------------------------------------------------------


async def test_every_pane_is_reached_without_zoom_by_key(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        main = bench.app.main
        main.query_one("#metrics").focus()
        for pane in ("queue", "events", "metrics"):
            await bench.press("right_square_bracket")
            assert main.seen == ["chat", "tree", "blocks", pane]
            assert main.pane_of(bench.app.focused) == pane
        await bench.press("left_square_bracket", "shift+f6")
        assert main.seen[-1] == "events"
        for pane in ("table", "node", "blocks"):
            await bench.press("right_square_bracket")
            assert main.seen == ["chat", "tree", pane, "events"]
            assert main.pane_of(bench.app.focused) == pane


async def test_tabs_on_the_border_are_clicked(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        tabs = bench.app.main.query_one("#tabs-lower")
        assert tabs.region.y == box(bench, "metrics").y
        await pilot.click("#tabs-lower", offset=(tabs.size.width - 3, 0))
        await bench.settle()
        assert bench.app.main.seen[-1] == "events"
        assert bench.app.focused is bench.app.main.cache.log_view
        assert "Events" in bench.screen_text


async def test_a_low_screen_has_all_panes_in_two_places(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(110, 24)):
        main = bench.app.main
        main.query_one("#blocks").focus()
        found = []
        for _ in range(6):
            await bench.press("right_square_bracket")
            found.append(main.pane_of(bench.app.focused))
            assert main.seen[-1] == found[-1]
        assert sorted(found) == sorted(set(CACHE_PANES) - {"tree"})


# -- hiding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_whatever_is_hidden_the_rest_fills_the_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=size):
        await bench.ask("hello")
        main = bench.app.main
        await bench.press("escape")
        for _ in range(len(main.shown) - 1):
            hidden = main.at
            await bench.press("H")
            assert hidden not in main.seen
            assert main.seen
            assert main.pane_of(bench.app.focused) in ("", *main.seen)
            area = sum(box(bench, pane).area for pane in main.seen)
            assert area == main.body.size.area
            if bench.app.focused is main.prompt:
                main.focus_in(main.seen[0])
                await bench.settle()
        last = main.shown
        assert len(last) == 1
        assert not main.hide(last[0])
        assert main.seen == last
        main.action_usual_panes()
        await bench.settle()
        assert "chat" in main.shown


async def test_the_list_of_panes_brings_one_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        main = bench.app.main
        await bench.press("escape", "f6", "H")
        assert "tree" not in main.seen
        await bench.press("w")
        assert "[ ] Tree" in bench.screen_text
        await bench.press("j", "j", "space")
        assert "[x] Tree" in bench.screen_text
        assert "tree" in main.seen
        await bench.press("k", "enter")
        assert "chat" not in main.seen
        await bench.press("backspace", "q")
        assert main.seen == ["chat", "tree", "blocks", "metrics"]


async def test_the_palette_shows_and_hides(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        commands = {c.title: c for c in entries(bench.app)}
        commands["Show pane: Sessions"].run()
        commands["Hide pane: Tree"].run()
        commands["Show pane: Queue" if "Show pane: Queue" in commands else "Hide pane: Queue"].run()
        await bench.settle()
        assert bench.app.main.seen == ["sessions", "chat", "blocks", "metrics"]
        assert "queue" not in bench.app.main.cache.plan.stack_of("metrics")
        assert bench.app.focused is bench.app.main.prompt


async def test_a_hidden_chat_comes_back_for_what_is_said_in_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("escape", "H")
        assert "chat" not in bench.app.main.seen
        await bench.press("i")
        assert bench.app.focused is bench.app.main.prompt
        await bench.press("escape")
        assert bench.app.focused is bench.app.main.cache.tree_view
        bench.app.main.go_to("chat")
        await bench.settle()
        assert "chat" in bench.app.main.seen


async def test_inspecting_shows_a_hidden_inspector(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        bench.app.main.hide("node")
        bench.app.main.query_one("#tree").focus()
        await bench.press("G", "enter")
        assert "node" in bench.app.main.seen


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_tab_goes_to_what_is_seen_as_f6_does(tmp_path: Path, size: tuple[int, int]) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=size):
        main = bench.app.main
        for key, pair in (("tab", "f6"), ("shift+tab", "shift+f6")):
            places = []
            for way in (key, pair):
                main.action_prompt()
                places.append([])
                for _ in range(12):
                    await bench.press(way)
                    places[-1].append((main.at, bench.app.focused))
                    assert bench.app.focused is main.prompt or main.pane_of(bench.app.focused) in main.seen
            assert places[0] == places[1]


async def test_a_paste_into_a_pane_is_the_prompts_unless_a_filter_is_typed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        main = bench.app.main
        main.go_to("tree")
        main.focused.post_message(Paste("two\nthree"))
        await bench.settle()
        assert (main.prompt.text, bench.app.focused) == ("two\nthree", main.prompt)
        main.go_to("tree")
        await bench.press("slash")
        main.focused.post_message(Paste("on\x1b[2Je"))
        await bench.settle()
        assert main.cache.tree_view.filter_text == "on[2Je"
        assert main.prompt.text == "two\nthree"


async def test_a_filter_typed_in_one_piece_is_all_of_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        main = bench.app.main
        main.go_to("tree")
        await bench.settle()
        for key, character in (("slash", "/"), *((letter, letter) for letter in "one"), ("enter", None)):
            bench.app.post_message(Key(key, character))
        await bench.settle()
        tree = main.cache.tree_view
        assert (tree.filter_text, tree.typing_filter) == ("one", False)


async def test_pane_keys_are_letters_in_the_prompt(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        before = bench.app.main.seen
        await bench.press(*"Hw(){}0[]")
        assert bench.app.main.prompt.text == "Hw(){}0[]"
        assert bench.app.main.seen == before


# -- the next time ---------------------------------------------------------------------------


async def test_all_of_it_is_kept_for_each_arrangement(tmp_path: Path) -> None:
    file = tmp_path / "screen.json"
    bench = Bench(tmp_path, remembered=Remembered(file))
    async with bench.run() as pilot:
        main = bench.app.main
        await bench.press("escape", *["ctrl+right"] * 4)
        width = box(bench, "chat").width
        main.hide("table")
        main.go_to("events")
        await bench.settle()
        await pilot.resize_terminal(200, 50)
        await bench.settle()
        assert main.seen == list(PANES)
        main.hide("sessions")
        await bench.settle()
    again = Bench(tmp_path, remembered=Remembered(file))
    async with again.run() as pilot:
        main = again.app.main
        assert main.seen == ["chat", "tree", "blocks", "events"]
        assert box(again, "chat").width == width
        assert main.cache.plan.stack_of("blocks") == ("blocks", "node")
        await pilot.resize_terminal(200, 50)
        await again.settle()
        assert main.seen == [pane for pane in PANES if pane != "sessions"]
        assert "1 new" in again.screen_text or main.query_one("#chips").region.area > 0
        main.query_one("#queue").focus()
        await again.press("z")
    third = Bench(tmp_path, remembered=Remembered(file))
    async with third.run(size=(200, 50)):
        assert third.app.main.seen == ["queue"]
        assert third.app.focused is third.app.main.prompt


def test_what_cannot_be_right_is_passed_over() -> None:
    remembered = Remembered()
    remembered.set("panes.two.hidden", ["tree", "nothing", "tree"])
    remembered.set("panes.two.front", ["events", "x", "events"])
    remembered.set("panes.two.zoomed", "tree")
    remembered.set(
        "panes.two.sizes", {"body/chat": 7.0, "column/tree": 0.5, "x": 0.2, "body/cache": float("nan")}
    )
    kept = panes_kept.load(remembered, Arrangement.TWO)
    assert kept.hidden == {"tree"}
    assert kept.raised == ["events"]
    assert kept.zoomed == ""
    assert kept.weights == {"column": {"tree": 0.5}}
    remembered.set("panes.two.hidden", list(PANES))
    assert panes_kept.load(remembered, Arrangement.TWO).hidden == {"sessions"}


def test_a_pane_that_was_hidden_when_a_line_moved_keeps_its_share() -> None:
    kept = panes_kept.Kept(set())
    kept.set_lengths("column", {"tree": 10, "middle": 5, "lower": 5})
    kept.set_lengths("column", {"tree": 5, "middle": 15})
    assert kept.weights["column"]["lower"] == 0.25
    assert kept.weights["column"]["tree"] == pytest.approx(0.75 / 4)


def test_the_screen_is_one_of_sizes() -> None:
    """The class that reads the mouse is the one that the app has."""
    from chatkv.tui.main_screen import MainScreen

    assert issubclass(MainScreen, SizedScreen)


async def test_the_end_of_the_chat_stays_in_sight_where_its_pane_gets_another_size(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        for number in range(8):
            await bench.ask(f"question {number} " + "word " * 40)
        view = bench.app.main.chat.view
        assert view is not None
        for keys in (("escape", "z"), ("z",), ("c",), ("c",)):
            await bench.press(*keys)
            assert view.max_scroll_y > 0
            assert view.scroll_y == view.max_scroll_y, keys


async def test_frames_and_keys_are_right_for_the_room_of_now_however_soon_they_are_drawn(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        await bench.ask("hello")
        main = bench.app.main

        async def zoom() -> tuple[str, str]:
            """The chat's lower edge and the keys, drawn by the test once, before there is a layout."""
            main.action_zoom()
            await main.draw_chat()
            await pilot.pause(0.4)
            lines = bench.screen_text.splitlines()
            return next((line for line in lines if line.startswith("╰")), ""), lines[-1]

        await bench.press("escape")
        edge, _ = await zoom()
        assert "1 node · " in edge
        assert "context" in edge
        edge, _ = await zoom()
        assert "node" not in edge
        assert "context" in edge
        main.cache.tree_view.focus()
        await bench.settle()
        _, keys = await zoom()
        assert "Tab" in keys, "there are tabs to go to"
        main.changed()
        await main.draw_chat()
        edge, keys = await zoom()
        assert "context" in edge
        assert "Tab" not in keys
