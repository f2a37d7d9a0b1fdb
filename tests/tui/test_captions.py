"""The caption on the screen: what it says, its key, where it has no room, what is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.tui.main_screen import CAPTIONS
from tests.tui.helpers import Bench

SHARED = "You are a helpful assistant who answers in one short line and never in more than that, please. "


def line(bench: Bench) -> str:
    return str(bench.app.main.caption.render())


async def test_it_says_in_names_what_two_chats_share(tmp_path: Path) -> None:
    bench = Bench(tmp_path, block_size=4)
    async with bench.run():
        clock = [1000.0]
        bench.app.main.clock = lambda: clock[0]
        assert line(bench) == "> an empty cache: 64 blocks of 4 tokens each"
        bench.app.book.rename(bench.session, "rust [help]")
        await bench.ask(SHARED + "Explain ownership.")
        await bench.press("ctrl+n")
        bench.app.book.rename(bench.session, "poem")
        clock[0] += 10
        await bench.ask(SHARED + "Write a poem.", steps=1)
        assert line(bench).startswith("/ 'rust [help]' and 'poem' share their first ")
        assert line(bench) in bench.screen_text
        # It is held for as long as it takes to read it, whatever else the answer does.
        clock[0] += 2.5
        bench.engine.step(1)
        await bench.settle()
        assert line(bench).startswith("/ ")
        clock[0] += 1
        await bench.settle()
        assert not line(bench).startswith("/ ")


async def test_it_stands_still_with_the_picture(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one two three")
        await bench.press("escape", "space")
        before = line(bench)
        clock = bench.app.main.clock() + 60
        bench.app.main.clock = lambda: clock
        await bench.settle()
        bench.app.desk.clear_cache()
        await bench.settle()
        assert line(bench) == before
        await bench.press("space")
        assert line(bench) == "x the cache was cleared: every block is free"


async def test_n_hides_it_and_shows_it_and_that_is_remembered(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        main = bench.app.main
        await bench.press("n")
        assert main.prompt.text == "n", "where one types it is a letter"
        await bench.press("backspace", "escape")
        assert main.caption.display
        await bench.press("n")
        assert not main.caption.display
        assert bench.app.remembered.get(CAPTIONS, "") == "off"
        await bench.press("n")
        assert main.caption.display
        assert bench.app.remembered.get(CAPTIONS, "") == "on"


@pytest.mark.parametrize(("chosen", "height", "shown"), [("", 30, True), ("", 24, False), ("on", 24, True)])
async def test_few_rows_have_none_unless_it_was_asked_for(
    tmp_path: Path, chosen: str, height: int, shown: bool
) -> None:
    bench = Bench(tmp_path)
    bench.app.remembered.set(CAPTIONS, chosen)
    async with bench.run((80, height)):
        assert bench.app.main.caption.display is shown
        await bench.pilot.resize_terminal(30, 10)
        assert not bench.app.main.caption.display
