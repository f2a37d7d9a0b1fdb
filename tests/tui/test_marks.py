"""Marks: of an answer not seen yet, of what no conversation leads to; and whose request one clicks on."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.geometry import Region

from chatkv.tui.cache.queue_view import QueueView
from chatkv.tui.cache.tree.pane import RadixTreeView
from tests.tui.cache.host import text_of
from tests.tui.helpers import Bench


@pytest.mark.parametrize("size", [(120, 36), (200, 50)])
async def test_an_answer_that_was_not_seen_is_marked_until_its_session_is_opened(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=size):
        await bench.ask("first", steps=1)
        await bench.press("ctrl+n")
        assert "●" in bench.screen_text
        assert "○" not in bench.screen_text
        bench.engine.finish_all()
        await bench.settle()
        assert "●" not in bench.screen_text
        row = next(line for line in bench.screen_text.splitlines() if "○" in line)
        assert "1 first" in row
        await bench.press("ctrl+s")
        assert "○" in bench.screen_text
        await bench.press("escape", "alt+1")
        assert "○" not in bench.screen_text
        await bench.ask("seen as it comes")
        assert "○" not in bench.screen_text


async def test_thoughts_that_the_next_prompt_drops_are_a_branch_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, script=lambda request: "<think>\nlong thoughts here\n</think>\n\nThe answer.")
    async with bench.run(size=(200, 50)):
        # As templates have it: of an answer, without what was thought.
        def prompt(turns: object) -> list[int]:
            text = "".join(f"<{turn.role}>{turn.text}" for turn in turns)  # type: ignore[attr-defined]
            return bench.engine.encode(text + "<assistant>")

        monkeypatch.setattr(bench.engine, "_prompt", prompt)
        await bench.ask("q")
        mirror = bench.app.desk.feed.mirror
        assert not any(mirror.left_behind(node) for node in mirror.nodes.values())
        await bench.ask("and now")
        left = [node for node in mirror.nodes.values() if mirror.left_behind(node)]
        assert "thoughts" in "".join(bench.engine.decode(node.tokens.tolist()) for node in left)
        (row,) = [line for line in bench.screen_text.splitlines() if "thoughts" in line and "├─" in line]
        assert "├─-" in row


def marked(bench: Bench) -> list[str]:
    """Rows of the tree that say of a node that it is left behind."""
    return [line for line in bench.screen_text.splitlines() if "├─-" in line or "└─-" in line]


async def test_the_path_of_the_branch_that_is_shown_stands_out(tmp_path: Path) -> None:
    words = iter(("first answer", "second answer"))
    bench = Bench(tmp_path, script=lambda request: next(words))
    async with bench.run(size=(200, 50)):
        await bench.ask("a question")
        await bench.press("ctrl+r")
        bench.engine.finish_all()
        await bench.settle()

        def lead(text: str) -> str:
            (row,) = [line for line in text_of(bench.app.main.query_one(RadixTreeView)) if text in line]
            return row[0]

        assert (lead("first"), lead("second")) == ("▹", "▸")
        await bench.press("escape", "left")
        assert (lead("first"), lead("second")) == ("▸", "▹")
        await bench.press("f1")
        assert "▹ another branch" in "\n".join(
            strip.text
            for strip in bench.app.screen.query_one("KeyTable").render_lines(Region(0, 0, 200, 200))
        )


async def test_the_version_that_is_shown_is_not_left_behind(tmp_path: Path) -> None:
    words = iter(("first answer", "second answer", "third"))
    bench = Bench(tmp_path, script=lambda request: next(words))
    async with bench.run(size=(200, 50)):
        await bench.ask("a question")
        await bench.press("ctrl+r")
        bench.engine.finish_all()
        await bench.settle()

        def left() -> str:
            mirror = bench.app.desk.feed.mirror
            nodes = [node for node in mirror.nodes.values() if mirror.left_behind(node)]
            return "".join(bench.engine.decode(node.tokens.tolist()) for node in nodes)

        assert "first" in left()
        assert any("first" in line for line in marked(bench))
        await bench.press("escape", "left")
        assert not any("first" in line for line in marked(bench))
        assert "first" not in left()
        assert "second" in left()
        await bench.press("ctrl+o", "enter")
        await bench.press("alt+1", "escape", "right")
        assert not left(), "the fork goes on from the first"


async def test_a_click_in_the_queue_goes_to_the_session(tmp_path: Path) -> None:
    bench = Bench(tmp_path, num_blocks=8)
    async with bench.run(size=(200, 50)):
        for name in ("first", "second", "third"):
            await bench.ask(f"{name} a b c d e f", steps=1)
            await bench.press("ctrl+n")
        queue = bench.app.main.query_one(QueueView)
        assert len(queue._lines) == 3
        for y, line in enumerate(queue._lines, 1):
            await bench.pilot.click(queue, offset=(3, y))
            await bench.settle()
            assert bench.session.key == line.session
        current = bench.session
        await bench.pilot.click(queue, offset=(3, 5))  # under the last one
        await bench.settle()
        assert bench.session is current
