"""A terminal that is too small to draw in says so, and what cannot be seen does not act."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.tui.keys.actions import ACTIONS
from chatkv.tui.keys.current import keys_of
from tests.tui.helpers import Bench

KEYS = sorted({key for id in ACTIONS if id != "quit" for key in keys_of(id)})


@pytest.mark.parametrize("opened", [[], ["ctrl+p"], ["ctrl+s", "delete"]])
async def test_only_quitting_acts(opened: list[str], tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)) as pilot:
        await bench.ask("hello")
        await bench.type("a draft that is long")
        bench.engine.step(1)
        await bench.press(*opened)
        before = (bench.app.screen, bench.app.focused)
        for size in ((39, 24), (80, 11), (20, 6), (3, 2), (1, 1)):
            await pilot.resize_terminal(*size)
            await bench.settle()
            if size[0] > 3:
                assert f"too small: {size[0]}x{size[1]}" in " ".join(bench.screen_text.split())
        await pilot.resize_terminal(20, 6)
        await bench.settle()
        assert "ctrl+q" in bench.screen_text
        await pilot.press(*(KEYS if not opened else ()), "x", "y", "enter", "escape", "f1", "ctrl+p")
        for x in range(0, 20, 5):
            await pilot.click(offset=(x, 3))
        await pilot.resize_terminal(80, 24)
        await bench.settle()
        assert (bench.app.screen, bench.app.focused) == before
        assert "too small" not in bench.screen_text
        assert bench.app.main.prompt.text == ""
        assert len(bench.app.book.sessions) == 1
        assert bench.session.running
        assert not bench.app.desk.feed.frozen
        await pilot.resize_terminal(20, 6)
        await bench.press("ctrl+q")
        assert not bench.app.is_running


async def test_from_the_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(20, 6), toasts=True) as pilot:
        bench.app.report("another line that is long enough to lie on the one that matters")
        await bench.settle()
        await pilot.pause(0.2)
        assert "20x6" in bench.screen_text
        await bench.press("ctrl+n", "x")
        await pilot.resize_terminal(80, 24)
        await bench.settle()
        await bench.ask("hello")
        assert bench.texts() == [("user", "hello"), ("assistant", "You said: hello")]
