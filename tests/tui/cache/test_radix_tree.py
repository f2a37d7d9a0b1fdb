"""The tree on a screen: what it says, how it moves, what it withstands."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len
from textual import events

from chatkv.insight.mirror import Mirror
from chatkv.insight.visible import cells as terminal_cells
from chatkv.kvcache.events import CacheCleared, CacheCreated
from chatkv.tui.cache.messages import NodeSelected
from chatkv.tui.cache.tree.pane import RadixTreeView
from tests.tui.cache.host import Host, colours_of, text_of
from tests.tui.cache.stories import Story, decode, figure, wide


def tree() -> RadixTreeView:
    view = RadixTreeView()
    view.decode = decode
    return view


async def test_rows_say_state_text_tokens_locks_and_blocks() -> None:
    view = tree()
    async with Host(view).run_test(size=(62, 12)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        assert view.border_title == "Radix tree · 4 nodes"
        assert text_of(view)[:7] == [
            " root",
            "▸├─= You are a friendly assistant who answ…    64t r1  b8",
            "▹│ ├─x user: what is a borrow?↵ assistant:…    65t",
            " │ ├─· user: Write a⇥poem of the sea...        32t r0  b4",
            "▸│ └─+ user: Explain ownership in one line…    48t r1  b6",
            " └─·* [lora-a] Another system prompt...        24t r0  b3",
            "",
        ]


async def test_without_a_decoder_labels_are_token_ids() -> None:
    view = RadixTreeView()
    async with Host(view).run_test(size=(60, 12)) as pilot:
        view.show(figure().mirror, None)
        await pilot.pause()
        assert " ├─= 89 111 117 32" in text_of(view)[1]
        view.decode = decode
        assert " ├─= You are" in text_of(view)[1]


@pytest.mark.parametrize(
    ("mirror", "words"),
    [(None, "nothing cached yet: send a message"), (Mirror(), "nothing cached yet: send a message")],
)
async def test_an_empty_tree_says_what_to_do(mirror: Mirror | None, words: str) -> None:
    view = tree()
    async with Host(view).run_test(size=(60, 12)) as pilot:
        if mirror is not None:
            view.show(mirror, "rust")
        await pilot.press("j", "enter", "left", "G")
        assert text_of(view)[0] == words


async def test_a_cache_that_is_off_says_so() -> None:
    mirror = Mirror()
    mirror.apply(
        CacheCreated(seq=1, num_blocks=8, block_size=4, cache="none", eviction="", grain="", strict=True)
    )
    view = tree()
    async with Host(view).run_test(size=(60, 12)):
        view.show(mirror, None)
        assert text_of(view)[0] == "the cache is off: nothing is kept between answers"


async def test_keys_move_fold_and_select() -> None:
    view = tree()
    host = Host(view)
    async with host.run_test(size=(60, 12)) as pilot:
        view.show(figure().mirror, "rust")
        for keys, node in [
            ("j", 1),
            ("down", 2),
            ("k", 1),
            ("G", 4),
            ("up", 5),
            ("h", 1),
            ("g", 0),
            ("end", 4),
            ("home", 0),
            ("l", 1),
            ("right", 2),
            ("left", 1),
            ("pagedown", 4),
            ("pageup", 0),
        ]:
            await pilot.press(keys)
            assert view.cursor == node, keys
        await pilot.press("j", "h")
        assert text_of(view)[1].startswith("▸├─= You are a friendly")
        assert "⋯ 3 folded" not in text_of(view)[0]
        assert text_of(view)[2].startswith(" └─·* [lora-a]")
        await pilot.press("j", "enter")
        await pilot.press("k", "l", "j", "enter")
        assert [m.node for m in host.posted if isinstance(m, NodeSelected)] == [4, 2]


async def test_a_fold_says_how_much_it_hides() -> None:
    view = tree()
    async with Host(view).run_test(size=(60, 12)) as pilot:
        view.show(wide(20).mirror, None)
        await pilot.press("j", "h")
        assert "⋯ 9 folded" in text_of(view)[1]


async def test_a_click_selects_and_the_wheel_scrolls() -> None:
    view = tree()
    host = Host(view)
    async with host.run_test(size=(60, 12)) as pilot:
        view.show(wide(50).mirror, "load")
        await pilot.pause()
        view.scroll_to(y=0, animate=False)
        await pilot.click(view, offset=(8, 3))
        assert [m.node for m in host.posted if isinstance(m, NodeSelected)] == [2]
        view.post_message(events.MouseScrollDown(view, 5, 5, 0, 0, 0, False, False, False))
        await pilot.pause(0.5)
        assert view.scroll_offset.y > 0


async def test_it_follows_the_session_until_a_person_looks_elsewhere() -> None:
    story = wide(50)
    view = tree()
    async with Host(view).run_test(size=(60, 12)) as pilot:
        view.can_focus = False
        view.blur()
        await pilot.pause()
        view.show(story.mirror, "load")
        await pilot.pause()
        assert " └─+ Ĳ " in text_of(view)[-1], "node 50 is the newest"
        view.post_message(events.MouseScrollUp(view, 5, 5, 0, 0, 0, False, False, False))
        await pilot.pause(0.5)
        before = view.scroll_offset.y
        story.store(1, 60, 0, "zzz")
        view.show(story.mirror, "load")
        assert view.scroll_offset.y == before
        view.show(story.mirror, None)
        view.show(story.mirror, "load")
        assert "zzz" in text_of(view)[-1]


async def test_the_cursor_stays_on_its_node_and_its_line() -> None:
    story = wide(50)
    view = tree()
    async with Host(view).run_test(size=(60, 12)) as pilot:
        view.show(story.mirror, None)
        await pilot.press("G")
        line = view._rows.index(50) - view.scroll_offset.y
        for node in range(100, 110):
            story.store(1, node, 1, "a")
        view.show(story.mirror, None)
        assert view.cursor == 50
        assert view._rows.index(50) - view.scroll_offset.y == line


async def test_the_cursor_follows_an_evicted_node_to_its_ghost_and_then_moves_on() -> None:
    story = figure()
    view = tree()
    async with Host(view).run_test(size=(60, 12)):
        view.show(story.mirror, None)
        assert view.go_to(3)
        story.evict(3)
        view.show(story.mirror, None)
        assert view.cursor == 3
        story.log.emit(CacheCleared)
        view.show(story.mirror, None)
        assert view.cursor == 0
        assert not view.go_to(3)


async def test_another_mirror_replaces_the_tree() -> None:
    view = tree()
    past = figure()
    copy = past.mirror.copy()
    async with Host(view).run_test(size=(60, 12)):
        view.show(past.mirror, "rust")
        past.store(4, 50, 5, "and more")
        view.show(past.mirror, "rust")
        assert any("and more" in line for line in text_of(view))
        view.show(copy, "rust")
        assert not any("and more" in line for line in text_of(view))
        view.show(Mirror(), "rust")
        assert text_of(view)[0] == "nothing cached yet: send a message"


async def test_a_mirror_that_moved_on_before_the_next_frame_does_no_harm() -> None:
    story = figure()
    view = tree()
    async with Host(view).run_test(size=(60, 12)):
        view.show(story.mirror, "rust")
        story.log.emit(CacheCleared)
        assert text_of(view)[1] == ""


HOSTILE = {
    "markup": "[bold]x[/foo] [@click=app.quit()]y[/]",
    "wide": "所有权是什么？所有权是什么？所有权是什么？",
    "wide cut in the middle": "a所有权是什么？所有权是什么？所有权是什么？",
    "combining": "e\u0301" * 60,
    "zalgo": "Z\u0351\u036b\u0343\u036a\u0302\u036b" * 20,
    "controls": "a\x1b]52;c;aGk=\x07b\x9b31mc\x00\r\n\x0b\x7f",
    "direction": "abc\u202edef\u2066ghi\u200f",
    "joined emoji": "👨‍👩‍👧‍👦❤️👍🏽🇩🇪" * 5,
    "surrogate": "a\ud800b",
    "newlines": "\n\n\n",
    "spaces": "   ",
    "control token": "<|im_end|>",
}


@pytest.mark.parametrize("width", [18, 25, 40, 62])
async def test_hostile_labels_leave_the_columns_alone(width: int) -> None:
    story = Story(num_blocks=400, block_size=4)
    story.open(1, "x", 9, namespace="[red]evil\x1b[0m所")
    for node, text in enumerate(HOSTILE.values(), 1):
        story.store(1, node, 0, text, namespace="[red]evil\x1b[0m所" if node == 1 else "")
    view = tree()
    async with Host(view).run_test(size=(width, 20)) as pilot:
        view.show(story.mirror, "x")
        await pilot.pause()
        for y in range(1, len(HOSTILE) + 1):
            strip = view.render_line(y)
            assert strip.cell_length == cell_len(strip.text) == terminal_cells(strip.text) == width - 2
            assert not re.search("[\x00-\x1f\x7f-\x9f\u202e\u200d\ud800]", strip.text)
            figure = re.search(r"\d+t( r\d+ *b\d+ *)?$", strip.text)
            assert figure is not None, strip.text
        assert all(line.count("[") < 2 for line in text_of(view)[2:])


async def test_a_label_that_looks_like_markup_is_shown_as_it_is() -> None:
    story = Story()
    story.open(1, "x", 9)
    story.store(1, 1, 0, HOSTILE["markup"])
    view = tree()
    async with Host(view).run_test(size=(80, 10)):
        view.show(story.mirror, "x")
        assert HOSTILE["markup"] in text_of(view)[1]


async def test_twenty_thousand_nodes_are_shown_and_walked() -> None:
    story = wide(20_000)
    view = tree()
    async with Host(view).run_test(size=(80, 30)) as pilot:
        view.show(story.mirror, "load")
        await pilot.press("G")
        assert view.cursor == 20_000
        await pilot.press("k", "k", "pageup", "g", "j")
        assert view.cursor == 1
        story.store(1, 30_000, 0, "one more")
        view.show(story.mirror, "load")
        await pilot.press("G")
        assert "one more" in text_of(view)[-1]
        assert len(view._window[1] if view._window else []) < 40, "only what the screen shows is laid out"


async def test_without_colour_the_glyphs_still_tell_the_states_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    view = tree()
    host = Host(view)
    async with host.run_test(size=(62, 12)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        colours = colours_of(host)
        assert len(colours) > 3
        assert all(red == green == blue for red, green, blue in colours), colours
        glyphs = [re.search(r"[├└]─(.)", line) for line in text_of(view)]
        assert {found.group(1) for found in glyphs if found} == set("=+x·")


async def test_colours_are_the_themes() -> None:
    view = tree()
    host = Host(view)
    async with host.run_test(size=(62, 12)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        assert any(red != green for red, green, _ in colours_of(host))
        by_glyph = {s.text.strip(): s.style for y in range(6) for s in view.render_line(y) if s.style}
        assert by_glyph["+"].color != by_glyph["="].color != by_glyph["x"].color
        assert by_glyph["+"].bold
        assert not by_glyph["·"].bold


async def test_all_is_folded_and_unfolded_at_once() -> None:
    view = tree()
    async with Host(view).run_test(size=(60, 12)) as pilot:
        view.show(figure().mirror, None)
        await pilot.press("G", "k")
        assert view.cursor == 5
        await pilot.press("minus")
        assert [line[:4] for line in text_of(view)[:4]] == [" roo", " ├─=", " └─·", ""]
        assert "⋯ 3 folded" in text_of(view)[1]
        assert view.cursor == 1, "what hides the node it was on"
        await pilot.press("l")
        assert len(view._rows) == 6
        await pilot.press("minus", "plus")
        assert len(view._rows) == 6
        assert not any("folded" in line for line in text_of(view))
