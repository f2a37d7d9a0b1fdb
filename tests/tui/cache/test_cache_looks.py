"""What tree and map look like, as pictures that are compared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from chatkv.tui.cache.block_map import BlockMapView
from chatkv.tui.cache.block_table import BlockTableView
from chatkv.tui.cache.metrics import MetricsView
from chatkv.tui.cache.tree.pane import RadixTreeView
from tests.tui.cache.host import Host
from tests.tui.cache.stories import HashStory, decode, figure
from tests.tui.cache.test_metrics import STATS, busy

Compare = Callable[..., bool]
WIDTHS = [40, 58, 100]


@pytest.mark.parametrize("width", WIDTHS)
def test_tree(snap_compare: Compare, width: int) -> None:
    view = RadixTreeView()
    view.decode = decode

    async def play(pilot: Pilot[None]) -> None:
        view.show(figure().mirror, "rust")
        await pilot.press("j")

    assert snap_compare(Host(view), terminal_size=(width, 10), run_before=play)


def test_hash_tree(snap_compare: Compare) -> None:
    view = RadixTreeView()
    view.decode = decode

    async def play(pilot: Pilot[None]) -> None:
        story = HashStory()
        story.ask("system: user: one asks", "a")
        for question in ("two asks more", "two says less"):
            story.ask(f"system: user: {question}", "b")
        view.show(story.mirror, "b")
        await pilot.press("j")

    assert snap_compare(Host(view), terminal_size=(58, 14), run_before=play)


@pytest.mark.parametrize("width", WIDTHS)
def test_map(snap_compare: Compare, width: int) -> None:
    view = BlockMapView()

    async def play(pilot: Pilot[None]) -> None:
        view.show(figure().mirror, "rust")
        await pilot.press("l", "l")

    assert snap_compare(Host(view), terminal_size=(width, 6), run_before=play)


def test_dense_map(snap_compare: Compare) -> None:
    view = BlockMapView()

    async def play(pilot: Pilot[None]) -> None:
        story = figure(num_blocks=2_000)
        view.show(story.mirror, "rust")
        await pilot.pause()

    assert snap_compare(Host(view), terminal_size=(58, 6), run_before=play)


def test_table(snap_compare: Compare) -> None:
    view = BlockTableView()

    async def play(pilot: Pilot[None]) -> None:
        view.show(figure().mirror, "rust")
        await pilot.press("G")

    assert snap_compare(Host(view), terminal_size=(58, 9), run_before=play)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("problems", [[], ["block 3 is kept as 7, the tree says 5"]], ids=["sound", "wrong"])
def test_metrics(snap_compare: Compare, width: int, problems: list[str]) -> None:
    view = MetricsView()

    async def play(pilot: Pilot[None]) -> None:
        view.show(busy().mirror, "rust")
        view.set_engine(STATS, 4)
        view.set_problems(problems)
        await pilot.pause()

    assert snap_compare(Host(view), terminal_size=(width, 10), run_before=play)
