"""The light on the screen: green while all that must hold holds, red and told once when not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chatkv.engine.messages import Batch
from tests.tui.cache.test_metrics import STATS
from tests.tui.helpers import Bench


async def test_the_light_goes_red_and_green_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        cache = bench.app.main.cache
        await bench.ask("one two three")
        cache.check()
        await bench.settle()
        assert "✓ invariants hold" in bench.screen_text
        mirror = bench.app.desk.feed.mirror
        mirror._blocks.free += 1
        await bench.ask("four", steps=1)
        cache.check()
        cache.check()
        await bench.settle()
        assert "✗ check failed" in bench.screen_text
        assert [said for said in bench.said if "the picture of the cache is wrong: " in said] == bench.said
        assert len(bench.said) == 1
        mirror._blocks.free -= 1
        bench.engine.finish_all()
        await bench.settle()
        cache.check()
        await bench.settle()
        assert "✓ invariants hold" in bench.screen_text


async def test_the_engines_figures_reach_the_pane(tmp_path: Path) -> None:

    bench = Bench(tmp_path)
    async with bench.run():
        bench.engine.listener(Batch(1.0, (), (), (), stats=replace(STATS, saved_s=4.5)))
        await bench.settle()
        assert "reuse saved 4.50 s" in bench.screen_text
        assert "prefill 812 tok/s" in bench.screen_text
