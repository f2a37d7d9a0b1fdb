"""Keys that come within a frame of each other do what they do when there is time between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tui.helpers import Bench

PLACES = [((80, 24), "tree"), ((120, 36), "blocks"), ((200, 50), "sessions")]
PAIRS = [
    ("hide", "pane(1)"),
    ("hide", "zoom"),
    ("hide", "hide"),
    ("zoom", "pane(1)"),
    ("tab(1)", "pane(1)"),
]


@pytest.mark.parametrize(("size", "pane"), PLACES)
async def test_two_keys_in_a_frame(tmp_path: Path, size: tuple[int, int], pane: str) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=size):
        main = bench.app.main

        async def shown() -> None:
            for _ in range(2):
                await bench.pilot.pause()

        async def begin() -> None:
            main.unzoom()
            main.action_usual_panes()
            await shown()
            main.go_to(pane)
            await shown()

        async def after(first: str, second: str, quick: bool) -> tuple[object, ...]:
            await main.run_action(first)
            if not quick:
                await shown()
            await main.run_action(second)
            at_once = main.pane_of(bench.app.focused), main.at
            await shown()
            settled = main.pane_of(bench.app.focused), main.at
            assert at_once == settled
            return settled, main.shown, main.seen, bench.app.focused is main.prompt

        for first, second in PAIRS:
            await begin()
            slow = await after(first, second, quick=False)
            await begin()
            assert await after(first, second, quick=True) == slow, (first, second)
