"""The tour: card by card over the real screen, left at any card, and the screen is as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.geometry import Offset, Region, Size
from textual.pilot import Pilot
from textual.screen import Screen

from chatkv.chat.store import SessionStore
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Sampling
from chatkv.tui.app import TOURED, ChatkvApp, run
from chatkv.tui.dialogs.tour import CARDS, Tour, place
from chatkv.tui.keys.keymap import read_keys
from chatkv.tui.palette import entries
from chatkv.tui.remembered import Remembered
from chatkv.tui.too_small import TooSmall
from tests.tui.helpers import Bench

SIZES = [(80, 24), (120, 36), (200, 50), (40, 12)]


def card_region(bench: Bench) -> Region:
    return bench.app.screen.query_one("_Box").region


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_every_card_is_whole_and_on_the_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=size):
        main = bench.app.main
        focused = main.focused
        bench.app.action_tour()
        await bench.settle()
        for n, card in enumerate(CARDS, 1):
            assert isinstance(bench.app.screen, Tour)
            assert card.title in bench.screen_text
            assert f"{n} of {len(CARDS)}" in bench.screen_text
            assert Region(0, 0, *size).contains_region(card_region(bench))
            assert list(main.query(".-toured")) == [main.query_one(card.target)]
            await bench.press("enter" if n % 2 else "right")
        assert bench.app.screen is main
        assert not main.query(".-toured")
        assert main.at == "chat"
        assert main.focused is focused
        assert bench.app.remembered.get(TOURED, False)


async def test_no_frame_shows_the_card_where_it_does_not_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Region] = []
    drawn = ChatkvApp._display

    def display(app: ChatkvApp, screen: Screen[Any], renderable: Any) -> None:
        if isinstance(screen, Tour):
            seen.extend(box.region for box in screen.query("_Box") if box.region.overlaps(screen.region))
        drawn(app, screen, renderable)

    bench = Bench(tmp_path)
    async with bench.run():
        monkeypatch.setattr(ChatkvApp, "_display", display)
        bench.app.action_tour()
        await bench.settle()
        assert set(seen) == {card_region(bench)}


async def test_one_pane_shows_what_the_card_is_about_and_goes_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)):
        main = bench.app.main
        await bench.press("f6", "f6")
        assert main.at == "table"
        bench.app.action_tour()
        await bench.settle()
        assert main.at == "chat"
        await bench.press("enter")
        assert main.at == "tree"
        assert main.query_one("#tree").region.area > 0
        await bench.press("left", "left")
        assert "1 of 5" in bench.screen_text
        await bench.press("escape")
        assert bench.app.screen is main
        assert main.at == "table"


async def test_the_card_does_not_lie_on_what_it_speaks_of_where_there_is_room(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(120, 36)) as pilot:
        bench.app.action_tour()
        await bench.settle()
        for card in CARDS:
            target = bench.app.main.query_one(card.target).region
            assert not target.overlaps(card_region(bench))
            await pilot.click("Tour .text")
            await bench.settle()
        assert bench.app.screen is bench.app.main
        bench.app.action_tour()
        await bench.settle()
        await pilot.click(offset=(60, 1))  # beside the card: nothing
        assert "1 of 5" in bench.screen_text
        await pilot.click("#next")
        assert "2 of 5" in bench.screen_text
        await pilot.click("#back")
        assert "1 of 5" in bench.screen_text
        await pilot.resize_terminal(80, 24)
        await bench.settle()
        assert Region(0, 0, 80, 24).contains_region(card_region(bench))
        await pilot.click("#skip")
        await bench.settle()
        assert bench.app.screen is bench.app.main


async def test_what_is_hidden_has_its_card_in_the_middle(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(120, 36)):
        bench.app.main.query_one("#legend").display = False
        bench.app.action_tour()
        await bench.press("enter", "enter")
        assert CARDS[2].title in bench.screen_text
        assert abs(card_region(bench).center[0] - 60) <= 1


async def test_it_comes_by_itself_once_and_never_where_nobody_looks(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.app.first_run = True
    async with bench.run():
        assert bench.app.screen is bench.app.main
    asked = Bench(tmp_path)
    asked.app.tour_wanted = True
    async with asked.run():
        assert isinstance(asked.app.screen, Tour)
        asked.app.action_tour()
        await asked.settle()
        await asked.press("escape")
        assert asked.app.screen is asked.app.main
        assert "Tour" in [each.title for each in entries(asked.app)]
        await asked.type("/tour")
        assert isinstance(asked.app.screen, Tour)
    small = Bench(tmp_path)
    small.app.tour_wanted = True
    async with small.run(size=(30, 8)):
        assert isinstance(small.app.screen, TooSmall)
        assert not small.app.remembered.get(TOURED, False)


@pytest.mark.parametrize(("seen", "wanted"), [(False, False), (True, False), (True, True)])
def test_the_chat_knows_whether_it_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: bool, wanted: bool
) -> None:
    monkeypatch.setenv("CHATKV_DATA", str(tmp_path))
    if seen:
        Remembered(tmp_path / "screen.json").set(TOURED, True)
    apps: list[ChatkvApp] = []
    monkeypatch.setattr(ChatkvApp, "run", lambda self, **_: apps.append(self))
    run(EngineConfig(), Sampling(), SessionStore(tmp_path / "sessions"), tour=wanted)
    assert (apps[0].first_run, apps[0].tour_wanted) == (not seen, wanted)


async def test_who_types_has_seen_enough_and_loses_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)):
        bench.app.action_tour()
        await bench.press("enter")
        await bench.pilot.press(*"hi q?", "x")
        await bench.settle()
        assert bench.app.screen is bench.app.main
        assert bench.app.main.prompt.text == "hi q?x"
        assert bench.app.main.at == "chat"
        await bench.press("ctrl+u", "/", "f6", "f6")
        bench.app.action_tour()
        await bench.press("z")
        assert "1 of 5" in bench.screen_text


async def test_its_words_name_the_keys_in_force(tmp_path: Path) -> None:
    bench = Bench(tmp_path, keymap=read_keys({"fork": "f8", "tour.next": "n"}))
    async with bench.run():
        bench.app.action_tour()
        await bench.press("n", "n", "n")
        assert "f8 forks" in bench.screen_text
        assert "n next" in bench.screen_text


def test_places() -> None:
    screen, card = Size(100, 30), Size(40, 8)
    assert place(card, Region(), screen) == Offset(30, 11)
    assert place(card, Region(0, 25, 100, 5), screen) == Offset(30, 17)
    assert place(card, Region(0, 0, 100, 3), screen) == Offset(30, 3)
    assert place(card, Region(50, 0, 50, 30), screen) == Offset(10, 11)
    assert place(card, Region(0, 0, 50, 30), screen) == Offset(50, 11)
    assert place(card, Region(0, 0, 100, 30), screen) == Offset(58, 21)
    assert place(card, Region(0, 0, 20, 10), Size(20, 10)) == Offset(0, 1)


Compare = Callable[..., bool]


@pytest.mark.parametrize("card", [0, 1, 2])
def test_looks(tmp_path: Path, snap_compare: Compare, card: int) -> None:
    bench = Bench(tmp_path)

    async def play(pilot: Pilot[Any]) -> None:
        bench.pilot = pilot
        await pilot.pause()
        bench.app.main.prompt.cursor_blink = False
        bench.engine.ready()
        await bench.settle()
        bench.app.main.cache.check()  # else by its clock, before the picture is taken or after
        bench.app.action_tour()
        await bench.press(*["enter"] * card)

    assert snap_compare(bench.app, terminal_size=(80, 24) if card else (120, 36), run_before=play)
