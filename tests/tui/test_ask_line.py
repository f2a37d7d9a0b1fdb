"""A line that is asked for: what is pasted into it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from tests.tui.helpers import Bench


@pytest.mark.parametrize(
    ("pasted", "stands"),
    [
        ("\nfirst empty", "first empty"),
        ("two\r\nlines", "two lines"),
        ("\x1b]0;PW\x07 BEL \u202ex", "]0;PW BEL x"),
        ("", ""),
    ],
)
async def test_a_paste_is_one_printable_line(tmp_path: Path, pasted: str, stands: str) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("f2", "ctrl+u")
        field = bench.app.screen.query_one(Input)
        field.post_message(events.Paste(pasted))
        await bench.settle()
        assert field.value == stands


async def test_of_a_long_paste_comes_what_there_is_room_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("f2", "ctrl+u", "a", "b", "left")
        field = bench.app.screen.query_one(Input)
        assert field.max_length
        field.post_message(events.Paste("y" * 10_000))
        await bench.settle()
        assert field.value == "a" + "y" * (field.max_length - 2) + "b"


async def test_after_ctrl_n_one_writes_wherever_the_focus_was(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.press("escape", "ctrl+n")
        assert bench.app.focused is bench.app.main.prompt
