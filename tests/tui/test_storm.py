"""Any size at any moment, whatever is hidden, zoomed, dragged: nothing breaks, the focus can be seen."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from chatkv.tui.layout import PANES, Arrangement
from chatkv.tui.too_small import TooSmall
from tests.tui.helpers import Bench

KEYS = [
    "f6",
    "shift+f6",
    "escape",
    "z",
    "H",
    "w",
    "i",
    "x",
    "b",
    "t",
    "enter",
    "G",
    "right_square_bracket",
    "left_square_bracket",
    "ctrl+left",
    "ctrl+right",
    "ctrl+up",
    "ctrl+down",
    "right_curly_bracket",
    "left_parenthesis",
    "0",
    "n",
    "space",
    "alt+1",
    "alt+2",
    "ctrl+n",
    "ctrl+s",
]


def check(bench: Bench) -> None:
    """What holds at rest, of every screen."""
    main = bench.app.main
    seen = main.seen
    if main.arrangement is Arrangement.TINY:
        assert isinstance(bench.app.screen, TooSmall)
        return
    assert seen
    assert not set(seen) & main.kept.hidden
    regions = [main.query_one(f"#{pane}").region for pane in seen]
    assert all(region.area for region in regions)
    assert sum(region.area for region in regions) == main.body.region.area
    for pane in set(PANES) - set(seen):
        assert not main.query_one(f"#{pane}").region.area
    if bench.app.screen is main:
        focused = bench.app.focused
        assert focused is not None
        assert focused is main.prompt or main.pane_of(focused) in seen, (focused, seen)
        assert focused.region.area


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_storm(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    bench = Bench(tmp_path, script=lambda request: "words " * 400, num_blocks=16, block_size=4)
    async with bench.run() as pilot:
        main = bench.app.main
        await bench.type("go on and on")
        for _ in range(30):
            size = chance.choice(
                [
                    (chance.randint(1, 260), chance.randint(1, 70)),
                    *((80, 24), (120, 36), (200, 50), (40, 12), (100, 12)),
                ]
            )
            await pilot.resize_terminal(*size)
            bench.engine.step(1)
            if chance.random() < 0.3:
                main.toggle(chance.choice(list(PANES)))
            if main.arrangement is not Arrangement.TINY:
                await pilot.press(*chance.choices(KEYS, k=3))
                x, y = chance.randrange(size[0]), chance.randrange(size[1])
                await pilot.mouse_down(offset=(x, y))
                await pilot.hover(offset=(chance.randrange(size[0]), chance.randrange(size[1])))
                await pilot.mouse_up(offset=(x, y))
            await bench.settle()
            while bench.app.screen is not main and not isinstance(bench.app.screen, TooSmall):
                bench.app.pop_screen()
                await bench.settle()
            check(bench)
        await pilot.resize_terminal(120, 36)
        bench.app.desk.stop_all()
        bench.engine.finish_all()
        await bench.settle()
        check(bench)
        assert bench.app.desk.feed.mirror.check() == []
