"""The figures: hit rate, waits, speeds, the pool, evictions, what reuse saved, and the light."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.content import Content

from chatkv.engine.stats import EngineStats, Percentiles
from chatkv.insight.mirror import Mirror
from chatkv.scheduler import events as sched
from chatkv.tui.cache.metrics import MetricsView, saved
from tests.tui.cache.host import Host, text_of
from tests.tui.cache.stories import Story, figure

STATS = EngineStats(
    waiting=0,
    running=1,
    prefill_tps=812.4,
    decode_tps=38.24,
    ttft_s=Percentiles(0.038, 0.1, 0.2),
    inter_token_s=Percentiles(),
    prompt_tokens=308,
    reused_tokens=128,
    blocks_used=15,
    blocks_cached=7,
    blocks_free=42,
    unfilled_slots=7,
    saved_s=3.21,
)


def step(story: Story, number: int, prefill: int, decode: int, seconds: float) -> None:
    story.log.emit(
        sched.StepPlanned,
        step=number,
        prefill=((4, prefill),) if prefill else (),
        decode=(4,) * decode,
        waiting=0,
        running=1,
    )
    story.log.emit(sched.StepDone, step=number, step_s=seconds, forward_s=seconds)


def busy() -> Story:
    story = figure()
    for ttft in (0.02, 0.041):
        story.log.emit(sched.FirstToken, request=4, ttft_s=ttft)
    step(story, 1, 200, 0, 0.25)
    step(story, 2, 100, 0, 0.25)
    step(story, 3, 0, 1, 0.25)
    step(story, 4, 0, 2, 0.25)
    return story


async def test_lines_of_figures() -> None:
    view = MetricsView()
    async with Host(view).run_test(size=(62, 12)) as pilot:
        view.set_policy("LPM")
        view.show(busy().mirror, "rust")
        view.set_engine(STATS, 4, (0, 0, 1, 3))
        await pilot.pause()
        assert text_of(view) == [
            "hit 42% · last 4: 42%     " + " ▁▆▁▅",
            "ttft 41 ms · p50 38 ms    " + " ▄█",
            "decode 38.2 tok/s ▅█           prefill 812 tok/s █▅",
            "#" * 14 + "·" * 7 + "." * 39,
            "# in use 15  · cached 7  . free 42  of 64 blk",
            "evicted 1, 4/min ▁▁▃█          reuse saved 3.21 s ▁█▁█",
        ]


async def test_what_nobody_knows_yet_is_a_dash() -> None:
    view = MetricsView()
    async with Host(view).run_test(size=(52, 12)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        lines = text_of(view)
        assert lines[1].startswith("ttft –")
        assert lines[2].startswith("decode – tok/s")
        assert "prefill – tok/s" in lines[2]
        assert "saved" not in lines[5]
        view.set_engine(replace(STATS, saved_s=None, prefill_tps=None, ttft_s=Percentiles()), 0)
        await pilot.pause()
        assert "saved" not in text_of(view)[5]


@pytest.mark.parametrize("width", [12, 30, 40, 58, 100])
async def test_what_does_not_fit_is_left_out_whole(width: int) -> None:
    view = MetricsView()
    async with Host(view).run_test(size=(width, 12)) as pilot:
        view.set_policy("LPM (aging 32)")
        view.show(busy().mirror, "rust")
        view.set_engine(STATS, 4)
        await pilot.pause()
        lines = text_of(view)
        assert len(lines) == 6
        assert all(len(line) <= width - 2 for line in lines)
        parts = ["# in use 15", "· cached 7", ". free 42", "of 64 blk"]
        if width >= 30:
            shown = lines[4].split("  ")
            assert shown == [part for part in parts if part in shown]
            assert "saved 3.21 s" in lines[5]
        assert lines[4].startswith("# in use")


async def test_before_there_is_a_cache() -> None:
    view = MetricsView()
    async with Host(view).run_test(size=(52, 12)) as pilot:
        view.show(Mirror(), None)
        await pilot.pause()
        starts = [line.split("  ")[0] for line in text_of(view)]
        assert starts == ["hit 0%", "ttft –", "decode – tok/s", "", "# in use 0", "evicted 0, 0/min"]


async def test_each_prompt_is_a_bar_and_the_past_is_another_picture() -> None:
    story = figure()
    past = story.mirror.copy()
    view = MetricsView()
    async with Host(view).run_test(size=(52, 12)) as pilot:
        story.open(9, "poem", 65)
        story.reuse(9, 1)
        story.account(9, 65, 64)
        view.show(story.mirror, None)
        await pilot.pause()
        assert text_of(view)[0] == "hit 51% · last 5: 51%     " + " ▁▆▁▅█"
        view.show(past, None)
        await pilot.pause()
        assert text_of(view)[0] == "hit 42% · last 4: 42%     " + " ▁▆▁▅"


def light(view: MetricsView) -> str:
    subtitle = view.border_subtitle
    return subtitle.plain if isinstance(subtitle, Content) else str(subtitle or "")


async def test_a_failed_check_is_a_red_line_until_it_holds_again() -> None:
    view = MetricsView()
    async with Host(view).run_test(size=(52, 12)) as pilot:
        view.show(figure().mirror, None)
        await pilot.pause()
        assert view.size.height == 6
        assert light(view) == "1 running · 0 waiting"
        view.set_problems([])
        assert "✓ invariants hold" in light(view)
        view.set_problems(["block 3 is [red]lost[/]\x1b[2J", "and so is 4"])
        await pilot.pause()
        assert view.size.height == 7
        assert "✗ check failed" in light(view)
        assert text_of(view)[0] == "✗ check failed (and 1 more): block 3 is [red]lost…"
        style = next(s.style for s in view.render_line(0) if s.text.startswith("✗"))
        assert style is not None
        assert style.bold
        assert style.color is not None
        assert style.color.triplet is not None
        red, green, blue = style.color.triplet
        assert red > green
        assert red > blue
        view.set_problems([])
        await pilot.pause()
        assert view.size.height == 6
        assert "✓ invariants hold" in light(view)


async def test_waiting_and_running_requests_are_counted() -> None:
    story = Story()
    view = MetricsView()
    async with Host(view).run_test(size=(52, 12)) as pilot:
        story.open(1, "a", 8)
        story.open(2, "b", 8)
        for request in (1, 2):
            story.mirror.requests[request].state = "running" if request == 1 else "preempted"
        view.show(story.mirror, None)
        await pilot.pause()
        assert light(view) == "1 running · 1 waiting"


def test_saved_time_reads_well() -> None:
    assert [saved(value) for value in (0.5, 3.21, 73.0, 600.0)] == ["500 ms", "3.21 s", "73 s", "10 min"]


@pytest.mark.parametrize("width", [36, 40, 50, 62])
async def test_no_speed_is_cut(width: int) -> None:
    view = MetricsView()
    async with Host(view).run_test(size=(width, 12)) as pilot:
        view.show(busy().mirror, None)
        view.set_engine(replace(STATS, prefill_tps=12345.6), 0)
        await pilot.pause()
        line = text_of(view)[2]
        unit = " tok/s" if width >= 50 else "/s"
        assert f"decode 38.2{unit}" in line
        assert f"prefill 12,346{unit}" in line
