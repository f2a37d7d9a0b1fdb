"""The cache in the chat's lower border, where nothing else of it is on the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.insight.mirror import Mirror
from chatkv.tui.cache.glance import glance, shares
from tests.tui.cache.stories import figure
from tests.tui.helpers import Bench


@pytest.mark.parametrize(
    ("counts", "cells", "shared"),
    [
        ([1, 0, 999], 10, [1, 0, 9]),
        ([5, 5], 10, [5, 5]),
        ([0, 0], 10, [0, 0]),
        ([1, 1, 1, 1, 1, 100_000], 8, [1, 1, 1, 1, 1, 3]),
        ([100_000, 1, 1, 1, 1, 1], 8, [3, 1, 1, 1, 1, 1]),
    ],
)
def test_what_is_there_is_seen_and_all_cells_are_used(
    counts: list[int], cells: int, shared: list[int]
) -> None:
    assert shares(counts, cells) == shared


def test_less_is_said_in_less_room() -> None:
    mirror = figure().mirror
    assert str(glance(Mirror(), 60)) == ""
    whole = str(glance(mirror, 60))
    assert whole.startswith("4 nodes · ")
    assert " blk =" in whole
    assert whole.endswith(".")
    for width in range(60):
        assert len(str(glance(mirror, width))) <= width
    assert "nodes" not in str(glance(mirror, 24))
    assert "." in str(glance(mirror, 24))


async def test_it_is_there_where_the_chat_fills_the_screen_and_not_beside_the_cache(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run((80, 24)) as pilot:
        chat = bench.app.main.chat
        await bench.ask("Tell me of the sea and of the wind and of the long white clouds above them")
        await bench.settle()
        said = str(chat.border_subtitle)
        mirror = bench.app.desk.feed.mirror
        assert f"{len(mirror.nodes) - 1} nodes · " in said
        assert "blk " in said
        assert "context" in said
        await pilot.resize_terminal(120, 36)
        await bench.settle()
        assert "blk" not in str(chat.border_subtitle)
        await bench.press("escape", "z")
        await bench.settle()
        assert bench.app.main.one_pane
        assert "blk" in str(chat.border_subtitle)
