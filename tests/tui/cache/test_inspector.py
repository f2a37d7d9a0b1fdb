"""One node or one block in full."""

from __future__ import annotations

import re

import pytest
from textual import events

from chatkv.insight.mirror import Mirror
from chatkv.insight.standing import standing
from chatkv.kvcache.events import CacheCleared
from chatkv.tui.cache.inspector import Inspector, spans
from tests.tui.cache.host import Host
from tests.tui.cache.stories import Story, decode, figure, wide


def inspector() -> Inspector:
    view = Inspector()
    view.decode = decode
    return view


def lines_of(host: Host) -> list[str]:
    """What is inside the box, line by line."""
    strips = host.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip)[1:-1].rstrip() for strip in strips][1:-1]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([4], "4"),
        ([4, 9, 10, 11, 31], "4 9-11 31"),
        ([3, 2, 1], "3 2 1"),
        ([1, 2, 2, 3], "1-2 2-3"),
    ],
)
def test_neighbours_are_drawn_together(numbers: list[int], text: str) -> None:
    assert spans(numbers) == text


async def test_a_node() -> None:
    view = inspector()
    host = Host(view)
    async with host.run_test(size=(70, 14)) as pilot:
        view.show(figure().mirror, "rust")
        view.inspect_node(5)
        await pilot.pause()
        assert view.border_title == "Node inspector"
        assert lines_of(host)[:12] == [
            "node 5 · + new",
            "parent 1 · depth 2 · children 0",
            "48 tokens · 6 blocks · locks 1 · hits 0",
            "created seq 37 · last used seq 38",
            "can't be evicted: 1 request uses it",
            "sessions rust",
            "blocks 24-29",
            "    37 made by request 4: 48 tokens",
            "last prompt (request 4): hit 64 · first seen 35 · last token 1",
            "",
            "user: Explain ownership in one line.↵",
            " asst: Each",
        ]


async def test_an_evicted_node_the_root_and_one_that_is_not_there() -> None:
    view = inspector()
    host = Host(view)
    async with host.run_test(size=(70, 14)) as pilot:
        view.show(figure().mirror, None)
        view.inspect_node(2)
        await pilot.pause()
        assert lines_of(host)[:5] == [
            "node 2 · x evicted for room",
            "8 events ago, at seq 34 · created seq 9",
            "65 tokens · 9 blocks freed: 8-16",
            "was under 1",
            "sessions rust",
        ]
        view.inspect_node(0)
        await pilot.pause()
        assert lines_of(host)[0] == "root · 4 nodes · 168 tokens below it"
        view.inspect_node(99)
        await pilot.pause()
        assert lines_of(host)[0] == "node 99 is not in the tree at seq 42"


async def test_a_pinned_node_in_a_namespace() -> None:
    view = inspector()
    host = Host(view)
    async with host.run_test(size=(70, 14)) as pilot:
        view.show(figure().mirror, None)
        view.inspect_node(4)
        await pilot.pause()
        assert lines_of(host)[0] == "node 4 · · idle · * pinned"
        assert "namespace lora-a" in lines_of(host)


@pytest.mark.parametrize(
    ("block", "lines"),
    [
        (
            0,
            [
                "block 0 · = reused",
                "owned by node 1 (in the tree)",
                "hash df83ec70633a39af…",
                "request 4 (rust): logical 0, 8/8 filled",
            ],
        ),
        (
            30,
            [
                "block 30 · + new",
                "private: in one request's row only",
                "request 4 (rust): logical 14, 3/8 filled",
            ],
        ),
        (
            8,
            [
                "block 8 · x evicted",
                "free again, evicted a short while ago",
                "    34 freed: node 2 was evicted for room",
            ],
        ),
        (63, ["block 63 · . free", "free", ""]),
        (64, ["block 64 does not exist: the pool has 64", "", ""]),
    ],
)
async def test_a_block(block: int, lines: list[str]) -> None:
    view = inspector()
    host = Host(view)
    async with host.run_test(size=(70, 14)) as pilot:
        view.show(figure().mirror, "rust")
        view.inspect_block(block)
        await pilot.pause()
        assert view.border_title == "Block inspector"
        assert lines_of(host)[: len(lines)] == lines


async def test_with_nothing_asked_for_it_tells_how_and_accounts_for_the_last_prompt() -> None:
    view = inspector()
    host = Host(view)
    async with host.run_test(size=(70, 14)) as pilot:
        assert lines_of(host)[:2] == ["Enter on a node or a block shows it here.", ""]
        view.show(figure().mirror, "poem")
        await pilot.pause()
        assert lines_of(host)[1] == "last prompt (request 2): hit 64 · first seen 31 · last token 1"
        view.show(Mirror(), "poem")
        await pilot.pause()
        assert lines_of(host)[:2] == ["Enter on a node or a block shows it here.", ""]


async def test_it_keeps_up_with_the_cache_and_with_names() -> None:
    story = figure()
    names = {"rust": "rust help"}
    view = inspector()
    view.session_name = lambda key: names.get(key, key)
    host = Host(view)
    async with host.run_test(size=(70, 14)) as pilot:
        view.show(story.mirror, None)
        view.inspect_node(5)
        await pilot.pause()
        assert lines_of(host)[5] == "sessions rust help"
        names["rust"] = "borrowing"
        view.show(story.mirror, None)
        await pilot.pause()
        assert lines_of(host)[5] == "sessions borrowing"
        past = story.mirror.copy()
        story.log.emit(CacheCleared)
        view.show(story.mirror, None)
        await pilot.pause()
        assert lines_of(host)[0] == "node 5 is not in the tree at seq 43"
        view.show(past, None)
        await pilot.pause()
        assert lines_of(host)[0] == "node 5 · + new"


async def test_keys_and_the_wheel_scroll_and_another_node_starts_at_the_top() -> None:
    story = Story(num_blocks=600, block_size=8)
    story.open(1, "x", 2000)
    story.store(1, 1, 0, "first\n" * 300)
    story.store(1, 2, 0, "second\n" * 300)
    view = inspector()
    async with Host(view).run_test(size=(40, 8)) as pilot:
        view.show(story.mirror, "x")
        view.inspect_node(1)
        await pilot.pause()
        await pilot.press("j", "down")
        await pilot.pause(0.4)
        assert view.scroll_offset.y > 0
        await pilot.press("G")
        await pilot.pause(0.6)
        bottom = view.scroll_offset.y
        assert bottom == view.max_scroll_y > 250
        view.post_message(events.MouseScrollUp(view, 5, 2, 0, 0, 0, False, False, False))
        await pilot.pause(0.5)
        assert view.scroll_offset.y < bottom
        view.inspect_node(2)
        await pilot.pause()
        assert view.scroll_offset.y == 0


async def test_hostile_words_are_only_words() -> None:
    evil = "[red]x[/foo] [@click=app.quit()]y[/]\x1b]52;c;aGk=\x07\x9b31m\u202e所有权e\u0301\ud800\r\n\x7f"
    story = Story(num_blocks=100)
    story.open(1, evil, 9, namespace=evil)
    story.store(1, 1, 0, evil, namespace=evil)
    view = inspector()
    host = Host(view)
    async with host.run_test(size=(60, 20)) as pilot:
        view.show(story.mirror, evil)
        for node in (True, False):
            if node:
                view.inspect_node(1)
            else:
                view.inspect_block(0)
            await pilot.pause()
            text = "\n".join(lines_of(host))
            assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", text)
            assert "[red]x[/foo]" in text


async def test_a_large_tree_is_counted_between_frames() -> None:
    story = wide(12_000)
    story.close(1)
    view = inspector()
    host = Host(view)
    async with host.run_test(size=(110, 24)) as pilot:
        view.show(story.mirror, None)
        view.inspect_node(12_000)
        await pilot.pause()
        assert "when it would be evicted: counting …" in lines_of(host)
        for _ in range(100):
            await pilot.pause(0.02)
            if "when it would be evicted: counting …" not in lines_of(host):
                break
        assert standing(story.mirror, story.mirror.nodes[12_000]).words in lines_of(host)
