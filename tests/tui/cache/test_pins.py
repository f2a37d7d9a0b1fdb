"""Pins from the tree pane: set, seen, bounded, and taken away again."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import CacheCreated
from chatkv.tui.cache_column import cache_kind
from tests.tui.helpers import Bench


async def test_p_pins_a_node_and_takes_the_pin_away(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask(
            "Tell me of the sea and of the wind and of the long white clouds above them both today"
        )
        tree = bench.app.main.cache.tree_view
        tree.focus()
        await bench.press("g", "j", "p")
        mirror = bench.app.desk.feed.mirror
        node = tree.cursor
        assert mirror.nodes[node].pinned
        assert mirror.pinned == {node}
        assert mirror.held_by_pins() == len(mirror.nodes[node].blocks)
        assert "* " in tree.render_line(1).text
        assert "pinned 1" in bench.screen_text
        await bench.press("p")
        assert not bench.app.desk.feed.mirror.pinned
        assert "pinned 1" not in bench.screen_text


async def test_a_refused_pin_says_the_bound(tmp_path: Path) -> None:
    bench = Bench(tmp_path, num_blocks=8, block_size=4)
    async with bench.run():
        await bench.ask(" ".join(f"word{n}" for n in range(16)))
        bench.app.main.cache.tree_view.focus()
        await bench.press("G", "p")
        assert not bench.app.desk.feed.mirror.pinned
        assert any("at most 4 may be" in said for said in bench.said), bench.said
        bench.app.clear_notifications()
        await bench.press("space", "p")
        assert any("at most 4 may be" in said for said in bench.said), "also while the picture is held still"


async def test_the_root_is_not_pinned(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("Hello")
        bench.app.main.cache.tree_view.focus()
        await bench.press("g", "p")
        assert bench.said[-1:] == ["only a node that is in the tree can be pinned"]


@pytest.mark.parametrize(
    ("cache", "strict", "words"),
    [
        ("radix", False, "radix · lru by node · exact to the token"),
        ("radix", True, "radix · lru by node · whole blocks only"),
        ("hash", True, "hash · lru · whole blocks only"),
        ("none", True, "none · nothing is reused"),
        ("", True, ""),
    ],
)
def test_the_kind_of_cache_is_named(cache: str, strict: bool, words: str) -> None:
    mirror = Mirror()
    mirror.apply(
        CacheCreated(
            seq=1, num_blocks=8, block_size=4, cache=cache, eviction="lru", grain="node", strict=strict
        )
    )
    assert cache_kind(mirror) == words


async def test_the_tree_pane_names_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("Hello")
        assert "radix · lru by node · exact to the token" in bench.screen_text
