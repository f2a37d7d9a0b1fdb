"""Sorting and filtering the tree."""

from __future__ import annotations

import random
import re

import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import CacheCleared, EventLog, SlotsCopied
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.tui.cache.labels import Labels
from chatkv.tui.cache.tree.pane import RadixTreeView
from chatkv.tui.cache.tree.picture import SORTS, TreePicture
from tests.tui.cache.host import Host, text_of
from tests.tui.cache.stories import Story, decode, figure, wide

NAMES = {"rust": "rust help", "poem": "a poem", "solo": "alone"}


def tree() -> RadixTreeView:
    view = RadixTreeView()
    view.decode = decode
    view.session_name = lambda key: NAMES.get(key, key)
    return view


def keys(view: RadixTreeView) -> list[int]:
    return [row.key for row in view._rows.rows(0, 100)]


async def test_o_goes_through_the_orders_and_they_are_named() -> None:
    view = tree()
    story = figure()
    async with Host(view).run_test(size=(70, 12)) as pilot:
        view.show(story.mirror, None)
        assert keys(view) == [0, 1, -4, 3, 5, 4]
        await pilot.press("o")
        assert view.border_title == "Radix tree · 4 nodes · by recency"
        assert keys(view) == [0, 1, 5, -4, 3, 4]
        await pilot.press("o")
        assert view.border_title == "Radix tree · 4 nodes · by size"
        assert keys(view) == [0, 1, -4, 5, 3, 4]
        await pilot.press("o")
        assert view.border_title == "Radix tree · 4 nodes · by hits"
        assert keys(view)[:2] == [0, 1]
        await pilot.press("o")
        assert view.border_title == "Radix tree · 4 nodes"
        assert keys(view) == [0, 1, -4, 3, 5, 4]


async def test_a_use_moves_a_node_up_and_the_cursor_goes_with_it() -> None:
    view = tree()
    story = figure()
    async with Host(view).run_test(size=(70, 12)) as pilot:
        view.show(story.mirror, None)
        await pilot.press("o", "G")
        assert view.cursor == 4
        story.open(9, "solo", 30, namespace="lora-a")
        story.reuse(9, 4)
        view.show(story.mirror, None)
        assert keys(view)[1] == 4
        assert view.cursor == 4


@pytest.mark.parametrize("sort", SORTS[1:])
def test_following_step_by_step_gives_the_same_order_as_starting_over(sort: str) -> None:
    rng = random.Random(7)
    mirror = Mirror()
    cache = RadixCache(40, 2, log=EventLog(mirror.apply))
    picture = TreePicture(Labels())
    picture.sort = sort
    prompts: list[list[int]] = [[1, 2, 3]]
    for request in range(1, 200):
        prompt = rng.choice(prompts)[: rng.randint(1, 20)] + [
            rng.randint(1, 5) for _ in range(rng.randint(1, 6))
        ]
        if cache.open(request, prompt, session="s") is not None:
            if cache.grow(request, len(prompt)):
                cache.commit(request, prompt[mirror.rows[request].written :])
            cache.close(request, "finished")
            prompts.append(prompt)
        picture.follow(mirror)
        fresh = TreePicture(Labels())
        fresh.sort = sort
        fresh.follow(mirror)
        mine = [row.key for row in picture.rows.rows(0, 10_000)]
        assert mine == [row.key for row in fresh.rows.rows(0, 10_000)], request
        assert len(picture.rows) == len(mine)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("ownership", [0, 1, 5]),
        ("OWNERSHIP each", [0, 1, 5]),
        ("poem", [0, 1, 3]),
        ("alone", [0, 4]),
        ("pinned", [0, 4]),
        ("evicted", [0, -4]),
        ("new", [0, 1, 5]),
        ("left", [0, 1, 3]),
        ("nothing like it", [0]),
    ],
)
async def test_a_filter_by_text_session_or_state(typed: str, found: list[int]) -> None:
    view = tree()
    story = figure()
    async with Host(view).run_test(size=(90, 12)) as pilot:
        view.show(story.mirror, None)
        await pilot.press("slash", *("space" if c == " " else c for c in typed))
        await pilot.pause()
        shown = keys(view)
        if typed == "poem":
            assert 3 in shown
        elif typed == "left":
            assert all(story.mirror.left_behind(story.mirror.nodes[k]) for k in shown[2:])
        else:
            assert shown == found
        assert f"/{typed}▌" in str(view.border_title)
        if found == [0]:
            assert text_of(view)[0].startswith("no node has these words")
        await pilot.press("enter")
        assert f"/{typed}" in str(view.border_title)
        assert "▌" not in str(view.border_title)
        await pilot.press("j", "escape")
        assert view.border_title == "Radix tree · 4 nodes"
        assert keys(view) == [0, 1, -4, 3, 5, 4]


async def test_typing_moves_nothing_and_can_be_taken_back() -> None:
    view = tree()
    async with Host(view).run_test(size=(90, 12)) as pilot:
        view.show(figure().mirror, None)
        await pilot.press("slash", "o", "p", "z", "backspace", "backspace", "left")
        assert view.border_title == "Radix tree · 4 nodes · 4 found · /o▌"
        view.screen.set_focus(None)
        await pilot.pause()
        assert view.border_title == "Radix tree · 4 nodes · 4 found · /o"


async def test_what_is_found_follows_the_cache() -> None:
    view = tree()
    story = figure()
    async with Host(view).run_test(size=(90, 12)) as pilot:
        view.show(story.mirror, None)
        await pilot.press("slash", *"whale", "enter")
        assert keys(view) == [0]
        story.store(4, 50, 5, "a whale ")
        view.show(story.mirror, None)
        assert keys(view) == [0, 1, 5, 50]
        story.log.emit(CacheCleared)
        view.show(story.mirror, None)
        assert keys(view) == [0]
        view.show(figure().mirror, None)
        assert keys(view) == [0]


async def test_a_large_tree_is_looked_through_in_slices() -> None:
    view = tree()
    async with Host(view).run_test(size=(90, 12)) as pilot:
        view.show(wide(20_000).mirror, None)
        await pilot.press("slash", chr(0x100 + 17))
        for _ in range(200):
            await pilot.pause(0.05)
            if view._picture.filter is not None and not view._picture.filter.pending:
                break
        assert "80 found" in str(view.border_title)
        assert len(view._rows) < 200


async def test_a_hostile_filter_is_only_words() -> None:
    view = tree()
    story = Story()
    story.open(1, "x", 9)
    story.store(1, 1, 0, "[red]x[/foo]")
    async with Host(view).run_test(size=(90, 12)) as pilot:
        view.show(story.mirror, "x")
        view.filter_text = "[red]x[/foo]\x1b\u202e"
        view.filter_changed()
        await pilot.pause()
        assert not re.search("[\x1b\u202e]", str(view.border_title))
        view.filter_text = "[/foo]"
        view.filter_changed()
        await pilot.pause()
        assert keys(view) == [0, 1]


async def test_a_wide_row_says_hits_age_and_sessions_and_what_was_copied() -> None:
    view = tree()
    story = figure()
    story.log.emit(SlotsCopied, request=4, node=3, source=16, target=9, tokens=3)
    async with Host(view).run_test(size=(102, 12)) as pilot:
        view.show(story.mirror, "rust")
        await pilot.pause()
        lines = text_of(view)
        assert lines[1].endswith("64t r1  b8    h2   now    a poem, rust help")
        assert lines[3].startswith(" │ ├─·~ ") or lines[3].startswith(" │ ├─-~ ")
        assert lines[5].endswith("24t r0  b3    h0   1 ago  alone")


async def test_who_shares_a_node_is_told_by_numbers_and_a_single_one_by_name() -> None:
    view = tree()
    view.number_sessions({"rust": 1, "poem": 2})
    async with Host(view).run_test(size=(102, 12)) as pilot:
        story = figure()
        view.show(story.mirror, "rust")
        await pilot.pause()
        assert text_of(view)[1].endswith("now    1 2")
        assert text_of(view)[3].endswith("ago  2 a poem")
        # "solo" was deleted: it has a name in the engine's records alone.
        assert text_of(view)[5].endswith("ago  alone")
        for width, end in ((72, "now    1 2"), (60, "b8    1 2"), (50, "b8")):
            await pilot.resize_terminal(width, 12)
            await pilot.pause()
            assert text_of(view)[1].endswith(end), width
        await pilot.resize_terminal(72, 12)
        view.number_sessions({key: n for n, key in enumerate(["rust", "poem", *map(str, range(20))], 1)})
        for session in map(str, range(20)):
            story.mirror.nodes[1].share(session)
        view.show(story.mirror, "rust")
        view.refresh()
        await pilot.pause()
        assert text_of(view)[1].endswith(" ×22")
