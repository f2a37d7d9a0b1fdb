"""The focused session's row of the block table, and where its prompt's tokens came from."""

from __future__ import annotations

import numpy as np
import pytest
from textual import events

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.block_hash import SessionHashes
from chatkv.kvcache.events import CacheCleared, EventLog, PromptAccounted
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.tui.cache.accounting import account_line, last_accounted
from chatkv.tui.cache.block_table import BlockTableView
from chatkv.tui.cache.messages import BlockSelected
from tests.tui.cache.host import Host, text_of
from tests.tui.cache.stories import Story, figure


def account(**parts: int) -> PromptAccounted:
    names = (
        "hit",
        "copied",
        "first_seen",
        "evicted",
        "diverged",
        "rounding",
        "last_token",
        "other_namespace",
    )
    counts = dict.fromkeys(names, 0) | parts
    return PromptAccounted(seq=1, request=7, prompt_tokens=sum(counts[name] for name in names), **counts)


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"hit": 405, "last_token": 1}, "hit 405 · last token 1"),
        (
            {"hit": 384, "copied": 12, "evicted": 22, "evicted_seq": 1840, "evicted_by": 7, "rounding": 6},
            "hit 396 (12 copied) · evicted 22 (at 1840 for request 7) · rounding 6",
        ),
        ({"evicted": 22, "evicted_seq": 1840}, "evicted 22 (at 1840)"),
        ({"diverged": 30, "diverged_at": 130, "first_seen": 2}, "diverged 30 (at token 130) · first seen 2"),
        ({"other_namespace": 9}, "other namespace 9"),
        ({"bypassed": 9}, "reuse off 9"),
    ],
)
def test_an_account_in_a_line(parts: dict[str, int], line: str) -> None:
    assert account_line(account(**parts)) == line


def test_the_newest_account_of_the_session_is_the_one() -> None:
    mirror = figure().mirror
    found = last_accounted(mirror, "rust")
    assert found is not None
    assert (found.request, found.hit) == (4, 64)
    assert last_accounted(mirror, "nobody") is None


async def test_a_column_a_logical_block_and_the_account_below() -> None:
    view = BlockTableView()
    async with Host(view).run_test(size=(80, 12)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        assert view.border_title == "Block table · req 4 · 115 tok · 5 unfilled"
        assert text_of(view) == [
            "logical    0   1   2   3   4   5   6   7   8   9  10  11  12  13  14",
            "phys       0   1   2   3   4   5   6   7  24  25  26  27  28  29  30",
            "hash     df8 e55 c69 574 cb3 7d9 1b7 d4f e8f 3c4 c38 bd9 797 8bb   –",
            "state      =   =   =   =   =   =   =   =   +   +   +   +   +   +   +",
            "filled     8   8   8   8   8   8   8   8   8   8   8   8   8   8   3",
            "ref        1   1   1   1   1   1   1   1   1   1   1   1   1   1   1",
            "prompt  hit 64 · first seen 35 · last token 1",
        ]


async def test_a_shared_block_says_how_many_rows_name_it() -> None:
    story = figure()
    story.open(5, "poem", 96)
    story.reuse(5, 1)
    view = BlockTableView()
    async with Host(view).run_test(size=(60, 12)):
        view.show(story.mirror, "poem")
        assert text_of(view)[5] == "ref        2   2   2   2   2   2   2   2"


async def test_a_long_row_scrolls_under_its_names() -> None:
    view = BlockTableView()
    async with Host(view).run_test(size=(40, 12)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        assert text_of(view)[0] == "logical    0   1   2   3   4   5   6 …"
        await pilot.press("G")
        assert view.cursor == 14
        assert text_of(view)[1].startswith("phys   ")
        assert text_of(view)[1].endswith("  28  29  30")
        assert text_of(view)[6] == "prompt  hit 64 · first seen 35 · last…"
        await pilot.press("g")
        assert text_of(view)[0].startswith("logical    0   1")


async def test_keys_and_clicks_ask_for_the_physical_block() -> None:
    view = BlockTableView()
    host = Host(view)
    async with host.run_test(size=(80, 12)) as pilot:
        view.show(figure().mirror, "rust")
        for key, block in [
            ("l", 1),
            ("right", 2),
            ("h", 1),
            ("left", 0),
            ("left", 0),
            ("end", 14),
            ("home", 0),
        ]:
            await pilot.press(key)
            assert view.cursor == block, key
        await pilot.press("G", "l", "enter")
        await pilot.click(view, offset=(1 + 8 + 4 * 9 + 1, 2))
        await pilot.click(view, offset=(3, 2))
        assert [m.block for m in host.posted if isinstance(m, BlockSelected)] == [30, 25]


async def test_the_wheel_sideways_scrolls() -> None:
    view = BlockTableView()
    async with Host(view).run_test(size=(40, 12)) as pilot:
        view.show(figure().mirror, "rust")
        await pilot.pause()
        view.post_message(events.MouseScrollRight(view, 5, 2, 0, 0, 0, False, False, False))
        await pilot.pause(0.5)
        assert view.scroll_offset.x > 0


async def test_a_closed_row_stays_until_the_session_asks_again() -> None:
    story = figure()
    view = BlockTableView()
    async with Host(view).run_test(size=(80, 12)):
        view.show(story.mirror, "rust")
        story.close(4, locked=5)
        view.show(story.mirror, "rust")
        assert view.border_title == "Block table · req 4 closed · 115 tok"
        assert text_of(view)[1].startswith("phys       0   1")
        story.open(6, "rust", 9)
        view.show(story.mirror, "rust")
        assert view.border_title == "Block table · req 6 · 0 tok · 0 unfilled"
        assert text_of(view)[:2] == ["no blocks yet", "prompt  hit 64 · first seen 35 · last token 1"]


async def test_a_row_that_came_and_went_between_two_pictures_is_there() -> None:
    story = figure()
    view = BlockTableView()
    async with Host(view).run_test(size=(80, 12)):
        view.show(story.mirror, "poem")
        story.close(4, locked=5)
        view.show(story.mirror, "rust")
        assert view.border_title == "Block table · req 4 closed · 115 tok"
        assert text_of(view)[0].endswith(" 14")
        assert text_of(view)[2].startswith("hash     df8 e55")
        story.log.emit(CacheCleared)
        view.show(story.mirror, "rust")
        assert text_of(view)[0] == "no request of this session holds blocks"


async def test_a_session_without_a_row_still_has_its_account() -> None:
    view = BlockTableView()
    async with Host(view).run_test(size=(80, 12)) as pilot:
        story = figure()
        story.log.emit(CacheCleared)
        view.show(story.mirror, "poem")
        await pilot.press("l", "G", "enter")
        assert text_of(view)[:3] == [
            "no request of this session holds blocks",
            "prompt  hit 64 · first seen 31 · last token 1",
            "",
        ]
        view.show(figure().mirror, None)
        assert text_of(view)[:2] == ["no request of this session holds blocks", ""]


async def test_other_mirrors() -> None:
    story = figure()
    past = story.mirror.copy()
    view = BlockTableView()
    async with Host(view).run_test(size=(80, 12)):
        story.allocate(4, 1)
        story.close(4, locked=5)
        view.show(story.mirror, "rust")
        view.show(past, "rust")
        assert view.border_title == "Block table · req 4 · 115 tok · 5 unfilled"
        assert text_of(view)[0].endswith(" 14")
        small = Story(num_blocks=3)
        small.open(4, "rust", 5)
        small.close(4)
        view.show(small.mirror, "rust")
        assert text_of(view)[0] == "no request of this session holds blocks"
        view.show(Mirror(), "rust")
        assert view.border_title == "Block table"


async def test_a_closed_row_keeps_the_hashes_it_had() -> None:
    mirror = Mirror()
    cache = RadixCache(8, 4, log=EventLog(mirror.apply))
    view = BlockTableView()
    async with Host(view).run_test(size=(80, 12)):
        assert cache.open(1, list(range(10)), session="a") is not None
        assert cache.grow(1, 12)
        cache.commit(1, list(range(10)))
        view.show(mirror, "a")
        hashes = SessionHashes(4).chain("", "", np.arange(12, dtype=np.int32))
        first, second, third = (found.hex()[:3] for found in hashes)
        assert text_of(view)[2] == f"hash     {first} {second}   –"
        cache.commit(1, [10, 11])
        cache.close(1, "finished")
        view.show(mirror, "a")
        assert text_of(view)[2] == f"hash     {first} {second} {third}"
        # Its last block is taken by another one, which computes other things into it.
        assert cache.open(2, list(range(20, 44)), session="b") is not None
        assert cache.grow(2, 24)
        cache.commit(2, list(range(20, 44)))
        view.show(mirror, "a")
        assert text_of(view)[2] == f"hash     {first} {second}"
