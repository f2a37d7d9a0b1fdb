"""What was thought before an answer: one line, which unfolds; apart from the answer wherever that goes."""

from __future__ import annotations

import json
from pathlib import Path

from chatkv.engine.messages import Turn
from tests.tui.helpers import Bench


async def test_what_was_thought_is_folded_kept_and_not_sent_as_the_answer(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "<think>\nfirst second\x1b third\n</think>\n\nThe answer.")
    async with bench.run():
        await bench.ask("q", steps=6)
        assert "thinking, " in bench.screen_text
        assert "The answer" not in bench.screen_text
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts()[1] == ("assistant", "The answer.")
        assert "▸ thought for 3 words · t unfolds" in bench.screen_text
        await bench.press("escape", "t")
        assert "first second third" in bench.screen_text
        await bench.press("t")
        assert "first second third" not in bench.screen_text
        await bench.press("y")
        assert bench.app.clipboard == "The answer."
    again = Bench(tmp_path)
    async with again.run():
        assert "▸ thought for 3 words" in again.screen_text


async def test_thinking_in_an_imported_answer_is_folded_and_not_sent_as_its_text(tmp_path: Path) -> None:
    said = "<think>\nfirst second third\n</think>\n\nThe answer."
    file, back = tmp_path / "in.json", tmp_path / "out.json"
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": said}]
    file.write_text(json.dumps(messages))
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type(f"/import {file}")
        assert "▸ thought for 3 words · t unfolds" in bench.screen_text
        assert "think>" not in bench.screen_text
        assert "first second" not in bench.screen_text
        await bench.type(f"/export json {back}")
        assert json.loads(back.read_text())["messages"] == messages
        await bench.ask("more")
        assert bench.engine.requests[-1].turns[1] == Turn(
            "assistant", "The answer.", None, "first second third"
        )
        await bench.press("escape", "K", "K", "K", "t")
        assert "first second third" in bench.screen_text
        await bench.press("y")
        assert bench.app.clipboard == "The answer."
