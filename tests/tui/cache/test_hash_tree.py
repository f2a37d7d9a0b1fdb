"""The tree of a hash cache: a row a block, chains of blocks under each other, duplicates, dead branches."""

from __future__ import annotations

import random

import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import ChildrenMoved, Event, EventLog
from chatkv.kvcache.hash_cache import HashCache
from chatkv.tui.cache.tree.pane import RadixTreeView
from tests.tui.cache.host import Host, text_of
from tests.tui.cache.stories import HashStory, decode
from tests.tui.cache.test_tree_rows import check, follow, rows_of


@pytest.mark.parametrize("seed", range(8))
def test_blocks_whose_twin_took_their_place_take_what_hangs_on_them_along(seed: int) -> None:
    rng = random.Random(seed)
    mirror, moved = Mirror(), list[Event]()
    log = EventLog(lambda event: (mirror.apply(event), moved.append(event)))
    cache = HashCache(24, 2, log=log)
    rows = rows_of(mirror)
    live: dict[int, list[int]] = {}
    for request in range(1, 150):
        prompt = [rng.randint(1, 2) for _ in range(rng.randint(3, 12))]
        opened = cache.open(request, prompt, session=f"s{request % 3}")
        if opened is not None:
            live[request] = prompt[opened.cached :]
        # Several at once compute the same tokens: each keeps its blocks, and they become twins.
        for one in [r for r in list(live) if rng.random() < 0.5 or opened is None]:
            rest = live.pop(one)
            if rest and cache.grow(one, mirror.rows[one].prompt_tokens):
                cache.commit(one, rest)
            cache.close(one, "finished")
        if rng.random() < 0.6:
            follow(rows, mirror)
            check(rows, mirror)
    assert any(isinstance(event, ChildrenMoved) for event in moved), "the run was meant to have twins"


def test_what_hangs_on_a_block_moves_to_its_twin_also_long_after_both_were_drawn() -> None:
    mirror, moved = Mirror(), list[ChildrenMoved]()

    def take(event: Event) -> None:
        if isinstance(event, ChildrenMoved) and mirror.nodes[event.node].children:
            moved.append(event)
        mirror.apply(event)

    cache = HashCache(8, 2, log=EventLog(take))
    rows = rows_of(mirror)
    for request, prompt in ((1, [1, 1, 2]), (2, [1, 1, 3])):
        assert cache.open(request, prompt) is not None
        assert cache.grow(request, 3)
    cache.commit(1, [1, 1, 2])
    cache.commit(2, [1, 1, 3])
    assert cache.grow(2, 4)
    cache.commit(2, [3])
    follow(rows, mirror)
    check(rows, mirror)
    cache.close(1, "finished")
    assert cache.open(3, [7] * 11) is not None
    assert cache.grow(3, 11) is not None
    follow(rows, mirror)
    assert moved
    check(rows, mirror)


async def test_a_chain_of_blocks_is_not_indented_block_by_block() -> None:
    story = HashStory()
    story.ask("system: user: one asks", "a")
    story.ask("system: user: two asks more", "b")
    view = RadixTreeView()
    view.decode = decode
    async with Host(view).run_test(size=(44, 14)):
        view.show(story.mirror, "b")
        assert view.border_title == "Tree of blocks · 8 blocks"
        assert text_of(view)[:9] == [
            " root",
            "▸└─= syst                     4t r0  b1",
            "▸  = em:                      4t r0  b1",
            "▸  = user                     4t r0  b1",
            "   ├─· : on                   4t r0  b1",
            "   │ · e as                   4t r0  b1",
            "▸  └─+ : tw                   4t r0  b1",
            "▸    + o as                   4t r0  b1",
            "▸    + ks m                   4t r0  b1",
        ]
        # The question was edited: what was computed behind it leads nowhere any more.
        story.ask("system: user: two says less", "b")
        view.show(story.mirror, "b")
        assert text_of(view)[6:11] == [
            "▸  └─= : tw                   4t r0  b1",
            "▹    ├─- o as                 4t r0  b1",
            "▹    │ - ks m                 4t r0  b1",
            "▸    └─+ o sa                 4t r0  b1",
            "▸      + ys l                 4t r0  b1",
        ]
