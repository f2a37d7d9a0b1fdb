"""Who runs, who waits, and what is said of each."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from textual import events
from textual.pilot import Pilot

from chatkv.scheduler import events as sched
from chatkv.tui.cache.messages import SessionWanted
from chatkv.tui.cache.queue_view import QueueView, progress
from tests.tui.cache.host import Host, text_of
from tests.tui.cache.stories import Story, figure

EVIL = "[red]x[/foo]\x1b]52;c;aGk=\x07\u202e所有权"


def queued() -> Story:
    """One answers, one is in prefill, two wait, of which one was preempted."""
    story = figure()
    story.open(5, "poem", 40)
    story.allocate(5, 3)
    story.write(5, 20)
    for request, session in ((6, "solo"), (7, EVIL)):
        story.log.emit(
            sched.RequestQueued, request=request, session=session, prompt_tokens=30 + request, max_tokens=9
        )
    story.log.emit(sched.RequestPreempted, request=7, reason="the pool is full")
    story.log.emit(sched.QueueOrdered, policy="lpm", order=((7, 24, 0), (6, 0, 2)))
    return story


@pytest.mark.parametrize(
    ("done", "of", "bar"),
    [(0, 8, "▱▱▱▱▱▱▱▱"), (5, 8, "▰▰▰▰▰▱▱▱"), (9, 8, "▰▰▰▰▰▰▰▰"), (0, 0, "▰▰▰▰▰▰▰▰"), (-1, 8, "▱▱▱▱▱▱▱▱")],
)
def test_progress(done: int, of: int, bar: str) -> None:
    assert progress(done, of) == bar


async def test_running_first_then_whose_turn_it_is() -> None:
    view = QueueView()
    view.session_name = lambda key: {"rust": "rust help", "poem": "a poem", "solo": "alone"}.get(key, key)
    async with Host(view).run_test(size=(92, 9)) as pilot:
        view.show(queued().mirror, "rust")
        await pilot.pause()
        assert view.border_title == "Queue · 2 running · 2 waiting · LPM"
        lines = text_of(view)
        assert lines[0] == "▶   4 rust help        answer 0 tok  reused 64/100"
        assert lines[1] == "▶   5 a poem           prefill  ▰▰▰▰▱▱▱▱  20/40"
        assert lines[2].endswith("waits again  37 prompt  matched 24  preempted 1×")
        assert lines[2].startswith("1   7 ")
        assert lines[3] == "2   6 alone            waits  36 prompt  matched 0  overtaken 2×"
        bold = [s.style.bold for s in view.render_line(0) if s.style and "rust" in s.text]
        assert bold == [True]


async def test_nobody_waits() -> None:
    view = QueueView()
    async with Host(view).run_test(size=(60, 9)) as pilot:
        view.set_policy("fcfs")
        view.show(Story().mirror, None)
        await pilot.pause()
        assert text_of(view)[0] == "nothing runs and nobody waits"
        assert view.border_title == "Queue · 0 running · 0 waiting · fcfs"


@pytest.mark.parametrize("width", [8, 20, 40, 92])
async def test_hostile_names_stay_in_their_column(width: int) -> None:
    view = QueueView()
    async with Host(view).run_test(size=(width, 9)) as pilot:
        view.show(queued().mirror, None)
        await pilot.pause()
        for y in range(4):
            strip = view.render_line(y)
            assert strip.cell_length == cell_len(strip.text) == width - 2
            assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", strip.text)


async def test_keys_move_and_scroll() -> None:
    story = Story(num_blocks=8)
    for request in range(1, 40):
        story.log.emit(sched.RequestQueued, request=request, session="s", prompt_tokens=request, max_tokens=9)
    view = QueueView()
    async with Host(view).run_test(size=(60, 9)) as pilot:
        view.show(story.mirror, None)
        await pilot.pause()
        moves = [
            ("j", 1),
            ("k", 0),
            ("G", 38),
            ("g", 0),
            ("pagedown", 6),
            ("pageup", 0),
            ("end", 38),
            ("up", 37),
        ]
        for keys, at in moves:
            await pilot.press(keys)
            await pilot.pause()
            assert view._cursor == at, keys
            assert view.scroll_offset.y <= at < view.scroll_offset.y + 7
        assert view.scroll_offset.y == view.max_scroll_y


async def test_enter_asks_for_the_session_and_the_cursor_stays_on_its_request() -> None:
    view = QueueView()
    wanted: list[str] = []

    class Listening(Host):
        def on_session_wanted(self, message: SessionWanted) -> None:
            wanted.append(message.key)

    story = queued()
    async with Listening(view).run_test(size=(60, 9)) as pilot:
        await pilot.press("enter", "j")
        view.show(story.mirror, "rust")
        await pilot.pause()
        await pilot.press("j", "j", "enter")
        story.close(4)
        view.show(story.mirror, "rust")
        await pilot.press("enter", "G", "enter")
        await pilot.pause()
        view.show(Story().mirror, None)
        await pilot.press("enter", "k", "j")
    assert wanted == [EVIL, EVIL, "solo"]


@pytest.mark.parametrize("width", [40, 58, 100])
def test_looks(snap_compare: Callable[..., bool], width: int) -> None:
    view = QueueView()

    async def play(pilot: Pilot[None]) -> None:
        view.show(queued().mirror, "rust")
        await pilot.pause()

    assert snap_compare(Host(view), terminal_size=(width, 8), run_before=play)


async def test_a_click_and_the_wheel_reach_what_is_below() -> None:
    view = QueueView()
    story = Story(num_blocks=8)
    for request in range(1, 31):
        story.log.emit(
            sched.RequestQueued, request=request, session=f"s{request}", prompt_tokens=9, max_tokens=9
        )
    async with Host(view).run_test(size=(60, 8)) as pilot:
        view.show(story.mirror, None)
        view.screen.set_focus(None)
        await pilot.click(view, offset=(5, 2))
        assert view.has_focus
        await pilot.press("G")
        assert " 30 " in text_of(view)[-1]
        await pilot.press("g")
        assert "  1 " in text_of(view)[0]
        view.post_message(events.MouseScrollDown(view, 5, 2, 0, 0, 0, False, False, False))
        await pilot.pause(0.5)
        assert "  1 " not in text_of(view)[0]
