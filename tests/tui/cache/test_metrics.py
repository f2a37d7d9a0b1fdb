"""The figures: hit rate, speed, the pool, evictions, the queue, and the red line."""

from __future__ import annotations

import pytest

from chatkv.insight.mirror import Mirror
from chatkv.tui.cache.metrics import MetricsView
from tests.tui.cache.host import Host, text_of
from tests.tui.cache.stories import Story, figure


async def test_four_lines_of_figures() -> None:
    view = MetricsView()
    async with Host(view).run_test(size=(52, 10)) as pilot:
        view.set_policy("LPM")
        view.add_rate(19.1)
        view.add_rate(38.2)
        view.show(figure().mirror, "rust")
        await pilot.pause()
        assert text_of(view) == [
            "hit 42% ▄                tok/s 38.2 ▅█",
            "#" * 12 + "·" * 5 + "." * 33,
            "# in use 15  · cached 7  . free 42  of 64 blk",
            "evict 1  queue 0  running 1  LPM",
        ]


@pytest.mark.parametrize("width", [12, 30, 40, 58, 100])
async def test_what_does_not_fit_is_left_out_whole(width: int) -> None:
    view = MetricsView()
    async with Host(view).run_test(size=(width, 10)) as pilot:
        view.set_policy("LPM (aging 32)")
        view.add_rate(38.2)
        view.show(figure().mirror, "rust")
        await pilot.pause()
        lines = text_of(view)
        assert all(len(line) <= width - 2 for line in lines)
        parts = ["# in use 15", "· cached 7", ". free 42", "of 64 blk"]
        if width >= 30:
            shown = lines[2].split("  ")
            assert shown == [part for part in parts if part in shown]
        assert lines[2].startswith("# in use")


async def test_before_there_is_a_cache() -> None:
    view = MetricsView()
    async with Host(view).run_test(size=(52, 10)) as pilot:
        view.show(Mirror(), None)
        await pilot.pause()
        assert [line.split("  ")[0] for line in text_of(view)] == ["hit 0%", "", "# in use 0", "evict 0"]


async def test_each_prompt_is_a_bar_and_the_past_starts_over() -> None:
    story = figure()
    past = story.mirror.copy()
    view = MetricsView()
    async with Host(view).run_test(size=(52, 10)) as pilot:
        view.show(story.mirror, None)
        story.open(9, "poem", 65)
        story.reuse(9, 1)
        story.account(9, 65, 64)
        view.show(story.mirror, None)
        await pilot.pause()
        assert text_of(view)[0].startswith("hit 51% ▄█  ")
        view.show(past, None)
        await pilot.pause()
        assert text_of(view)[0].startswith("hit 42% ▄  ")


async def test_a_failed_check_is_a_red_line_until_it_holds_again() -> None:
    view = MetricsView()
    async with Host(view).run_test(size=(52, 10)) as pilot:
        view.show(figure().mirror, None)
        await pilot.pause()
        assert view.size.height == 4
        view.set_problems(["block 3 is [red]lost[/]\x1b[2J", "and so is 4"])
        await pilot.pause()
        assert view.size.height == 5
        assert text_of(view)[4] == "✗ check failed (and 1 more): block 3 is [red]lost…"
        style = next(s.style for s in view.render_line(4) if s.text.startswith("✗"))
        assert style is not None
        assert style.bold
        assert style.color is not None
        assert style.color.triplet is not None
        red, green, blue = style.color.triplet
        assert red > green
        assert red > blue
        view.set_problems([])
        await pilot.pause()
        assert view.size.height == 4


async def test_waiting_and_running_requests_are_counted() -> None:
    story = Story()
    view = MetricsView()
    async with Host(view).run_test(size=(52, 10)) as pilot:
        story.open(1, "a", 8)
        story.open(2, "b", 8)
        for request in (1, 2):
            story.mirror.requests[request].state = "running" if request == 1 else "preempted"
        view.show(story.mirror, None)
        await pilot.pause()
        assert text_of(view)[3] == "evict 0  queue 1  running 1"
