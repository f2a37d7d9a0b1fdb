"""A line of keys ends between two of them: a key and its word are never parted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tui.helpers import Bench

HINTS = {
    "ctrl+s": ["enter open", "f2 rename", "del delete", "^z undo", "^t sort", "^f search", "^n new"],
    "ctrl+f": ["enter go there", "esc close"],
    "ctrl+o": ["enter fork", "↑ ↓ another message", "esc cancel"],
    "f2": ["enter keep", "esc cancel"],
    "w": ["enter show, hide", "0 usual sizes", "backspace all as at first", "esc close"],
}


@pytest.mark.parametrize("key", HINTS)
async def test_in_dialogs(key: str, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)):
        await bench.ask("hello")
        await bench.press(*(["escape"] if key == "w" else []), key)
        for width in (80, 66, 59, 53, 47, 40):
            await bench.pilot.resize_terminal(width, 24)
            await bench.settle()
            lines = [line.split("│") for line in bench.screen_text.splitlines()]
            shown = [part.strip() for line in lines for cell in line for part in cell.split(" · ")]
            assert [hint for hint in HINTS[key] if hint not in shown] == []
            if key == "ctrl+s":
                assert re.search(r"▸ 1 hello +0 *│", bench.screen_text), "a row is one line, and fits the box"


async def test_under_an_answer_that_comes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(40, 24)):
        await bench.ask("one two three four", steps=2)
        for width in range(40, 56, 3):
            await bench.pilot.resize_terminal(width, 24)
            await bench.settle()
            assert re.search(r"(│ +|· )esc stops", bench.screen_text)


async def test_in_the_border_of_the_chat(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_context=40)
    async with bench.run(size=(40, 24)):
        await bench.ask("one two three four five six seven eight nine ten " * 3)
        assert "context 100% full" in bench.screen_text
        for width in range(40, 66, 5):
            await bench.pilot.resize_terminal(width, 24)
            await bench.settle()
            border = next(line for line in bench.screen_text.splitlines() if "context " in line)
            assert re.search(r"full( · ctrl\+o forks earlier( · ctrl\+n new)?)? ─", border), border
