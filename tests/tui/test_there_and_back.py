"""From a block to its node in the tree, from a node to its blocks in the map."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widget import Widget

from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.inspector import Inspector
from tests.tui.helpers import Bench


async def focus(bench: Bench, pane: str) -> Widget:
    await bench.press("escape")
    bench.app.main.go_to(pane)
    await bench.settle()
    widget = bench.app.main.query_one(f"#{pane}")
    assert widget.has_focus
    return widget


@pytest.mark.parametrize("size", [(120, 36), (200, 50), (80, 24)])
async def test_t_and_b_go_to_the_other_pane_and_back(tmp_path: Path, size: tuple[int, int]) -> None:
    bench = Bench(tmp_path, block_size=4)
    async with bench.run(size):
        await bench.ask("one two three four five six seven eight nine ten")
        await bench.press("ctrl+n")
        await bench.ask("one two three four five six and other words")
        cache, mirror = bench.app.main.cache, bench.app.desk.feed.mirror
        block = max(range(mirror.num_blocks), key=lambda b: mirror.block_node(b) or -1)
        node = mirror.block_node(block)
        assert node is not None
        await focus(bench, "blocks")
        cache.blocks.go_to(block)
        await bench.press("t")
        assert cache.tree_view.has_focus
        assert cache.tree_view.cursor == node
        await bench.press("b")
        assert cache.blocks.has_focus
        assert cache.blocks.cursor == min(mirror.nodes[node].blocks.tolist())
        assert cache.blocks.region.area > 0
        await bench.press("G", "t")
        assert cache.blocks.has_focus, "a free block has no node"


async def test_what_is_folded_or_filtered_away_is_shown_all_the_same(tmp_path: Path) -> None:
    bench = Bench(tmp_path, block_size=4)
    async with bench.run((200, 50)):
        await bench.ask("one two three four five six seven eight nine ten")
        await bench.press("ctrl+n")
        await bench.ask("one two three four five six and other words")
        cache, mirror = bench.app.main.cache, bench.app.desk.feed.mirror
        deepest = max(mirror.nodes, key=lambda n: len(mirror.path(n)))
        block = int(mirror.nodes[deepest].blocks[0])
        await focus(bench, "tree")
        await bench.press("g", "j", "h")
        assert len(cache.tree_view._rows) == 2, "folded"
        await focus(bench, "blocks")
        cache.blocks.go_to(block)
        await bench.press("t")
        assert cache.tree_view.cursor == deepest
        await bench.press("slash", *"nosuchword", "enter")
        assert cache.tree_view.cursor == ROOT
        cache.tree_view.blur()
        await focus(bench, "blocks")
        await bench.press("t")
        assert cache.tree_view.cursor == deepest
        assert not cache.tree_view.filter_text


async def test_from_the_table_and_from_the_inspector(tmp_path: Path) -> None:
    bench = Bench(tmp_path, block_size=4)
    async with bench.run((200, 50)):
        await bench.ask("one two three four five six seven eight nine ten", steps=1)
        cache, mirror = bench.app.main.cache, bench.app.desk.feed.mirror
        row = next(iter(mirror.rows.values()))
        await focus(bench, "table")
        await bench.press("l", "b")
        assert cache.blocks.has_focus
        assert cache.blocks.cursor == row.blocks[1]
        await focus(bench, "table")
        await bench.press("t")
        node = mirror.block_node(row.blocks[1])
        assert (cache.tree_view.has_focus, cache.tree_view.cursor) == (True, node)
        cache.node.inspect_node(node or 0)
        await focus(bench, "node")
        await bench.press("b")
        assert cache.blocks.has_focus
        await focus(bench, "node")
        await bench.press("t")
        assert cache.tree_view.has_focus


async def test_a_click_on_a_nodes_name_shows_that_node(tmp_path: Path) -> None:
    bench = Bench(tmp_path, block_size=4)
    async with bench.run((200, 50)):
        await bench.ask("one two three four five six seven eight nine ten")
        cache, mirror = bench.app.main.cache, bench.app.desk.feed.mirror
        node = next(n for n in mirror.nodes if n != ROOT)
        cache.node.inspect_block(int(mirror.nodes[node].blocks[0]))
        await bench.settle()
        inspector = bench.app.main.query_one(Inspector)
        assert inspector.border_title == "Block inspector"
        # "owned by node 1 (in the tree)"
        await bench.pilot.click(inspector, offset=(1 + len("owned by n"), 2))
        await bench.settle()
        assert inspector.border_title == "Node inspector"
