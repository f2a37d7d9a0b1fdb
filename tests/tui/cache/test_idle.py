"""An idle screen is not drawn again, and a picture that did not change is not looked at again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pytest
from textual.widget import Widget

from chatkv.insight.mirror import Ghost, Mirror, Node, RequestView
from chatkv.tui.cache.block_map import BlockMapView
from chatkv.tui.cache.block_table import BlockTableView
from chatkv.tui.cache.events_view import EventsView
from chatkv.tui.cache.inspector import Inspector
from chatkv.tui.cache.legend import Legend
from chatkv.tui.cache.metrics import MetricsView
from chatkv.tui.cache.queue_view import QueueView
from chatkv.tui.cache.status import StatusLine, StatusValues
from chatkv.tui.cache.tree.pane import RadixTreeView
from tests.tui.cache.host import Host
from tests.tui.cache.stories import Story, figure

Pane = RadixTreeView | BlockMapView | BlockTableView | Inspector | MetricsView | QueueView | EventsView
PANES = [RadixTreeView, BlockMapView, BlockTableView, Inspector, MetricsView, QueueView, EventsView]


class WatchedMirror(Mirror):
    """Counts how often the parts that grow with the cache are read."""

    reads = 0

    @property
    def nodes(self) -> dict[int, Node]:
        self.reads += 1
        return super().nodes

    @property
    def ghosts(self) -> dict[int, Ghost]:
        self.reads += 1
        return super().ghosts

    @property
    def requests(self) -> dict[int, RequestView]:
        self.reads += 1
        return super().requests

    def block_states(self) -> npt.NDArray[np.uint8]:
        self.reads += 1
        return super().block_states()


def watched(story: Story) -> WatchedMirror:
    mirror = WatchedMirror()
    mirror.apply_all(story.events)
    mirror.reads = 0
    return mirror


@pytest.fixture
def refreshed(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, int]:
    """How often each kind of widget asked to be drawn."""
    asked: Counter[str] = Counter()
    refresh: Callable[..., Widget] = Widget.refresh

    def counting(self: Widget, *regions: object, **how: object) -> Widget:
        asked[type(self).__name__] += 1
        return refresh(self, *regions, **how)

    monkeypatch.setattr(Widget, "refresh", counting)
    return asked


@pytest.mark.parametrize("kind", PANES)
async def test_the_same_picture_again_costs_nothing(kind: type[Pane], refreshed: Counter[str]) -> None:
    story = figure()
    mirror = watched(story)
    view = kind()
    async with Host(view).run_test(size=(60, 12)) as pilot:
        if isinstance(view, EventsView):
            view.add(story.events)
        view.show(mirror, "rust")
        await pilot.pause()
        assert refreshed[kind.__name__]
        refreshed.clear()
        mirror.reads = 0
        view.show(mirror, "rust")
        if isinstance(view, EventsView):
            view.add([])
        if isinstance(view, MetricsView):
            view.set_problems([], checked=False)
            view.set_engine(None, 0)
            view.set_policy("")
        await pilot.pause()
        assert not refreshed
        assert mirror.reads == 0


@pytest.mark.parametrize("kind", [BlockMapView, BlockTableView, Inspector, QueueView])
async def test_an_event_that_changes_nothing_seen_draws_nothing(
    kind: type[Pane], refreshed: Counter[str]
) -> None:
    story = figure()
    view = kind()
    async with Host(view).run_test(size=(60, 12)) as pilot:
        view.show(story.mirror, "poem")
        await pilot.pause()
        refreshed.clear()
        story.write(4, 1)
        view.show(story.mirror, "poem")
        await pilot.pause()
        assert not refreshed


async def test_lines_are_drawn_when_they_change(refreshed: Counter[str]) -> None:
    legend, status = Legend(), StatusLine()
    async with Host(legend, status).run_test(size=(60, 12)) as pilot:
        legend.show(3)
        status.show(StatusValues(tokens_per_s=1.0))
        await pilot.pause()
        refreshed.clear()
        legend.show(3)
        status.show(StatusValues(tokens_per_s=1.0))
        await pilot.pause()
        assert not refreshed
        legend.show(4)
        status.show(StatusValues(tokens_per_s=2.0))
        assert refreshed == {"Legend": 1, "StatusLine": 1}


async def test_left_alone_nothing_is_drawn(refreshed: Counter[str]) -> None:
    story = figure()
    tree, blocks, table = RadixTreeView(), BlockMapView(), BlockTableView()
    panes: list[Pane] = [tree, blocks, table, Inspector(), MetricsView(), QueueView(), EventsView()]
    async with Host(*panes).run_test(size=(100, 60)) as pilot:
        for view in panes:
            view.show(story.mirror, "rust")
        await pilot.pause(0.3)
        refreshed.clear()
        await pilot.pause(0.7)
        assert not refreshed
