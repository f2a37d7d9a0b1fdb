"""Titles beside tabs."""

from pathlib import Path

import pytest

from chatkv.tui.cache.boxed import fitting
from tests.tui.helpers import Bench


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (60, "Block table · req 2 closed · 366 tok"),
        (36, "Block table · req 2 closed · 366 tok"),
        (35, "Block table · req 2 closed"),
        (25, "Block table"),
        (10, "Block tab…"),
        (0, ""),
    ],
)
def test_whole_parts_of_a_title_give_way(room: int, shown: str) -> None:
    assert fitting("Block table · req 2 closed · 366 tok", room) == shown


@pytest.mark.parametrize("size", [(100, 30), (120, 36), (200, 50)])
async def test_no_title_runs_into_the_tabs(tmp_path: Path, size: tuple[int, int]) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=size, ready=False):
        assert "Blocks 0/0" not in bench.screen_text
    async with (bench := Bench(tmp_path)).run(size=size) as pilot:
        await bench.ask("a question that is long enough for some blocks of tokens " * 8)
        for pane in ("table", "blocks", "node", "queue"):
            bench.app.main.go_to(pane)
            await pilot.pause(0.1)
            view = bench.app.main.query_one(f"#{pane}")
            top = bench.screen_text.splitlines()[view.region.y][view.region.x : view.region.right]
            title = str(view.border_title)
            assert f"─ {title} ─" in top or f"─ {title}  " in top, top
            assert "…" not in title
