"""The last events, newest first, a sentence each."""

from __future__ import annotations

import re
from pathlib import Path

from textual import events

from chatkv.insight.kinds import Touched
from chatkv.insight.mirror import Mirror
from chatkv.scheduler.events import RequestRefused
from chatkv.tui.cache.events_view import EventsView
from chatkv.tui.cache.messages import EventSelected
from tests.tui.cache.host import Host, text_of
from tests.tui.cache.stories import Story, figure
from tests.tui.helpers import Bench


def told(view: EventsView) -> list[int]:
    """The clock of each line on the screen."""
    return [int(line.split()[0]) for line in text_of(view) if line]


async def test_a_sentence_a_line_newest_first() -> None:
    story = figure()
    view = EventsView()
    async with Host(view).run_test(size=(80, 8)) as pilot:
        view.add(story.events)
        view.show(story.mirror, "rust")
        await pilot.pause()
        assert text_of(view)[1:] == [
            "  40 > 'rust' took 1 free block",
            "  37 + node 5 stored under node 1 by 'rust': 48 tokens in 6 blocks, now othe…",
            "  35 > 'rust' took 6 free blocks",
            "  34 x node 2 evicted: 65 tokens, least recently used",
            "  33 = 'rust' reused 64 tokens in 1 node: no need to compute them again",
        ]


async def test_nothing_yet() -> None:
    view = EventsView()
    async with Host(view).run_test(size=(60, 8)) as pilot:
        await pilot.press("j", "k", "G", "g")
        assert text_of(view)[0] == "nothing has happened yet"
        view.show(Mirror(), None)
        view.add([])
        assert text_of(view)[0] == "nothing has happened yet"
        story = figure()
        view.add(story.events)
        view.show(story.mirror, None)
        assert len(told(view)) == 6
        view.clear()
        assert text_of(view)[0] == "nothing has happened yet"


async def test_keys_and_the_wheel_scroll() -> None:
    story = figure()
    view = EventsView()
    async with Host(view).run_test(size=(60, 8)) as pilot:
        view.add(story.events)
        view.show(story.mirror, None)
        await pilot.pause()
        newest = told(view)
        for key, line in [("j", 1), ("down", 2), ("k", 1), ("up", 0), ("pagedown", 5), ("pageup", 0)]:
            await pilot.press(key)
            assert view._at() == line, key
        await pilot.press(*"jjjjjjj")
        assert view.scroll_offset.y == 2
        await pilot.press("G")
        await pilot.pause(0.6)
        assert told(view)[-1] == 1
        await pilot.press("g")
        await pilot.pause(0.6)
        assert told(view) == newest
        view.post_message(events.MouseScrollDown(view, 5, 2, 0, 0, 0, False, False, False))
        await pilot.pause(0.5)
        assert told(view)[0] < newest[0]


async def test_who_reads_older_lines_goes_on_reading_them() -> None:
    story = figure()
    view = EventsView()
    async with Host(view).run_test(size=(60, 8)) as pilot:
        view.add(story.events)
        view.show(story.mirror, None)
        await pilot.pause()
        for place in (3, view.max_scroll_y):
            view.scroll_to(y=place, animate=False, immediate=True)
            await pilot.pause()
            reading = text_of(view)
            before = len(story.events)
            story.pin(1)
            story.pin(1)
            view.add(story.events[before:])
            view.show(story.mirror, None)
            await pilot.pause()
            assert text_of(view) == reading
        view.scroll_home(animate=False, immediate=True)
        before = len(story.events)
        story.pin(1)
        view.add(story.events[before:])
        view.show(story.mirror, None)
        await pilot.pause()
        assert told(view)[0] == story.mirror.seq


async def test_a_past_picture_has_no_later_events() -> None:
    story = figure()
    past = story.mirror.copy()
    view = EventsView()
    async with Host(view).run_test(size=(60, 8)) as pilot:
        story.pin(1)
        view.add(story.events)
        view.show(story.mirror, None)
        await pilot.pause()
        assert told(view)[0] == story.mirror.seq
        view.show(past, None)
        await pilot.pause()
        assert told(view)[0] == past.seq
        view.show(Mirror(), None)
        await pilot.pause()
        assert told(view) == []


async def test_only_so_many_are_kept() -> None:
    story = Story(num_blocks=100)
    story.open(1, "x", 99)
    story.store(1, 1, 0, "text")
    for _ in range(50):
        story.pin(1)
    view = EventsView(keep=20)
    async with Host(view).run_test(size=(60, 50)) as pilot:
        view.add(story.events)
        view.show(story.mirror, None)
        await pilot.pause()
        assert len(told(view)) == 20


async def test_hostile_words_stay_in_their_line() -> None:
    story = Story()
    story.open(1, "[red]x[/foo]\x1b]52;c;aGk=\x07\x9b31m\u202e所有\n权e\u0301\ud800", 9)
    story.log.emit(RequestRefused, request=1, session="x", reason="\x1b[2J[@click=app.quit()]所" * 9)
    view = EventsView()
    async with Host(view).run_test(size=(61, 8)) as pilot:
        view.add(story.events)
        view.show(story.mirror, None)
        await pilot.pause()
        for y in range(4):
            strip = view.render_line(y)
            assert strip.cell_length == view.scrollable_content_region.width
            assert not re.search("[\x00-\x1f\x7f-\x9f\u202e\u200d\ud800]", strip.text)
        assert "[@click=app.quit()]所" in text_of(view)[0]
        assert "[red]x[/foo]" in text_of(view)[1]


async def test_a_filter_leaves_the_lines_with_all_words_and_typing_moves_nothing() -> None:
    story = figure()
    view = EventsView()
    async with Host(view).run_test(size=(80, 14)) as pilot:
        view.add(story.events)
        view.show(story.mirror, None)
        await pilot.press("slash", *"evicted", "colon", "space", *"Node")
        assert told(view) == [34]
        assert str(view.border_title) == "Events /evicted: Node▌"
        await pilot.press("enter")
        story.evict(3)
        view.add(story.events[-1:])
        view.show(story.mirror, None)
        assert told(view) == [story.mirror.seq, 34]
        await pilot.press("slash", *"zzz")
        assert text_of(view)[0] == "no event has these words · esc shows all"
        await pilot.press("escape")
        assert len(told(view)) > 5
        assert str(view.border_title) == "Events"


async def test_selecting_a_line_tells_its_nodes_and_blocks() -> None:
    story = figure()
    view = EventsView()
    chosen: list[EventSelected] = []

    class Listening(Host):
        def on_event_selected(self, message: EventSelected) -> None:
            chosen.append(message)

    async with Listening(view).run_test(size=(80, 14)) as pilot:
        await pilot.press("enter")
        view.add(story.events)
        view.show(story.mirror, None)
        await pilot.press("slash", *"evicted", "colon", "enter", "enter")
        assert [(m.seq, m.about) for m in chosen] == [(34, Touched((2,), tuple(range(8, 17))))]
        await pilot.press("escape")
        await pilot.pause()
        line = next(n for n, text in enumerate(text_of(view)) if " = 'rust' reused" in text)
        await pilot.click(view, offset=(9, line + 1))
        assert chosen[-1].about == Touched((1,), tuple(range(8)), 4)


async def test_an_event_lights_up_its_nodes_and_a_block_its_node(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run((200, 50)):
        await bench.ask("Tell me of the sea and of the wind and of the long white clouds above them")
        cache = bench.app.main.cache
        cache.log_view.focus()
        await bench.press("slash", *"stored", "enter", "enter")
        lit, nodes = cache.tree_view._lit, bench.app.desk.feed.mirror.nodes
        assert cache.tree_view.cursor in lit
        assert cache.blocks._lit == {block for node in lit for block in nodes[node].blocks.tolist()}
        cache.blocks.focus()
        await bench.press("g", "enter")
        assert cache.tree_view.cursor == bench.app.desk.feed.mirror.block_node(0)


async def test_an_event_without_nodes_lights_up_those_of_its_request(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run((200, 50)):
        await bench.ask("Tell me of the sea and of the wind and of the long white clouds above them")
        cache, mirror = bench.app.main.cache, bench.app.desk.feed.mirror
        cache.log_view.focus()
        for words in ("token after", "waits", "took"):
            cache.tree_view.light(())
            await bench.press("slash", *("space" if char == " " else char for char in words))
            await bench.press("enter", "enter")
            path = {node for node in mirror.nodes if mirror.nodes[node].sessions}
            lit = cache.tree_view._lit
            assert (lit and lit < path) if words == "took" else lit == path, words
            assert cache.blocks._lit, words
            await bench.press("escape")


async def test_the_line_one_comes_to_is_told_in_full_and_names_are_short_where_it_is_narrow() -> None:
    story = figure()
    view = EventsView()
    view.session_name = lambda key: f"{key} and a longer name"
    async with Host(view).run_test(size=(46, 12)) as pilot:
        view.add(story.events)
        view.show(story.mirror, None)
        await pilot.pause()
        before = text_of(view)
        assert before[1] == "  40 > 'rust and a…' took 1 free block"
        assert before[2] == "  37 + node 5 stored under node 1 by 'rust…"
        await pilot.press("j", "j")
        full = text_of(view)
        assert full[2:5] == [
            "  37 + node 5 stored under node 1 by 'rust",
            "       and a longer name': 48 tokens in 6",
            "       blocks, now others can reuse them",
        ]
        assert full[5:] == before[3:-2]
        for y, line in ((3, 2), (4, 2), (5, 3)):
            view._go(2)
            await pilot.pause()
            await pilot.click(view, offset=(9, y + 1))
            assert view._at() == line, y
        view.screen.set_focus(None)
        await pilot.pause()
        assert text_of(view) == before


async def test_a_filter_leaves_lines_out_and_knows_sessions_and_states() -> None:
    story = figure()
    view = EventsView()
    async with Host(view).run_test(size=(80, 40)) as pilot:
        view.add(story.events)
        view.show(story.mirror, None)
        everything = told(view)
        await pilot.press("slash", *"rust -reused", "enter")
        assert told(view) == [s for s in everything if s in told(view)]
        assert all("'rust'" in line and "reused" not in line for line in text_of(view) if line)
        await pilot.press("escape", "slash", *"new", "enter")
        assert all(" + " in line for line in text_of(view) if line)
        assert told(view)
