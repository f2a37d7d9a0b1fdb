"""What is said lies where it covers nothing that a person is busy with."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets._toast import Toast

from tests.tui.helpers import Bench

LONG = (
    "the session can't be renamed: another program has its file, and it says so in many words that take lines"
)


@pytest.mark.parametrize("keys", [["ctrl+s"], ["ctrl+f"], ["ctrl+o"], ["f2"], ["f1"], ["escape", "w"]])
async def test_no_toast_lies_on_a_dialog(tmp_path: Path, keys: list[str]) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24), toasts=True):
        await bench.ask("hello")
        await bench.press(*keys)
        screen = bench.app.screen
        assert screen is not bench.app.main
        box = next(child for child in screen.children if not child.has_class("-textual-system"))
        for line in (LONG, f"{LONG} again", "short"):
            bench.app.report(line)
            await bench.settle()
            await bench.pilot.pause(0.1)
            toasts = [t.region for t in screen.query(Toast) if t.region.area]
            assert toasts
            rack = screen.query_one("ToastRack").region
            # Some dialogs fill the screen and lay out their box themselves.
            inner = box.children[0].region if box.region == screen.region else box.region
            covered = [t for t in toasts if t.intersection(rack).overlaps(inner)]
            assert not covered
        assert "short" in bench.screen_text


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_however_many_there_are_none_lies_on_the_prompt(tmp_path: Path, size: tuple[int, int]) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=size, toasts=True):
        for n in range(12):
            bench.app.report(f"{n} {LONG}")
            await bench.settle()
        await bench.pilot.pause(0.2)
        main = bench.app.main
        toasts = list(main.query(Toast))
        assert len(toasts) >= 2
        regions = [toast.region for toast in toasts]
        assert not any(region.overlaps(main.prompt.region) for region in regions), regions
        assert "11 the session" in bench.screen_text
        assert "10 the session" in bench.screen_text
