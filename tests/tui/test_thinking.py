"""What was thought before an answer: one line, which unfolds; apart from the answer wherever that goes."""

from __future__ import annotations

import json
from pathlib import Path

from chatkv.engine.messages import Turn
from chatkv.tui.chat.messages import AnswerView
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
        assert bench.engine.requests[-1].prompt[1] == Turn(
            "assistant", "The answer.", None, "first second third"
        )
        await bench.press("escape", "K", "K", "K", "t")
        assert "first second third" in bench.screen_text
        await bench.press("y")
        assert bench.app.clipboard == "The answer."


LONG = "\n".join(f"thought {number} and its words" for number in range(600))


async def test_it_unfolds_and_folds_while_it_grows(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path, script=lambda request: f"<think>\n{LONG}\n</think>\n\nThe answer.", num_blocks=999
    )
    async with bench.run():
        await bench.ask("q", steps=40)
        view = bench.app.main.chat.view
        assert view is not None
        view.focus()
        await bench.press("t")
        assert "▾ thinking, " in bench.screen_text
        assert "│ thought 1 and its words" in bench.screen_text
        bench.engine.step(2000)
        await bench.settle()
        answer = view.query(AnswerView).last()
        before = answer.blocks()[1:]
        assert len(before) > 5
        bench.engine.step(10)
        await bench.settle()
        newest = view.session.running
        assert newest is not None
        assert newest.thinking.rsplit("\n", 1)[-1] in bench.screen_text, "the end is followed"
        assert answer.blocks()[1 : len(before) - 1] == before[:-2], "what is there is not laid out again"
        await bench.press("t")
        assert "▸ thinking, " in bench.screen_text
        await bench.press("t")
        bench.engine.finish_all()
        await bench.settle()
        assert "│ thought 599 and its words" in bench.screen_text, "it stays as it is when it is over"
        rows = bench.screen_text.split("\n")
        last = next(at for at, row in enumerate(rows) if "thought 599" in row)
        assert "The answer." not in rows[last + 1], "a row lies between"
        assert "The answer." in rows[last + 2]
        await bench.press("home")
        assert "▾ thought for 3,000 words · t folds" in bench.screen_text


async def test_what_is_unfolded_stays_so_through_versions_edits_and_sessions(tmp_path: Path) -> None:
    said = iter(f"<think>\nreason {number}\n</think>\n\nanswer {number}" for number in range(9))
    bench = Bench(tmp_path, script=lambda request: next(said))
    async with bench.run():
        await bench.ask("q")
        await bench.press("escape", "t")
        assert "│ reason 0" in bench.screen_text
        await bench.press("ctrl+r")
        bench.engine.finish_all()
        await bench.settle()
        assert "▸ thought for 2 words" in bench.screen_text, "another answer is folded at first"
        assert "│ reason" not in bench.screen_text
        await bench.press("left")
        assert "│ reason 0" in bench.screen_text
        assert "answer 0" in bench.screen_text
        await bench.press("e")
        await bench.ask("other")
        await bench.press("escape", "K", "K", "left", "J", "left")
        assert "│ reason 0" in bench.screen_text
        await bench.press("ctrl+n", "alt+1")
        assert "│ reason 0" in bench.screen_text
        await bench.press("escape", "t")
        await bench.press("right", "left")
        assert "│ reason 0" not in bench.screen_text


async def test_a_fork_and_the_next_prompt_have_it_apart(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "<think>\nreason\n</think>\n\nanswer")
    async with bench.run():
        await bench.ask("q")
        await bench.press("ctrl+o", "enter")
        assert len(bench.app.book.sessions) == 2
        assert "▸ thought for 1 word" in bench.screen_text
        await bench.ask("more")
        assert bench.engine.requests[-1].prompt[1].text == "answer"
        await bench.press("escape", "t")
        assert "│ reason" in bench.screen_text


async def test_an_answer_stopped_while_it_thought_is_all_thinking(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "<think>\nfirst second third\n</think>\n\nanswer")
    async with bench.run():
        await bench.ask("q", steps=4)
        await bench.press("escape")
        bench.engine.step()
        await bench.settle()
        assert bench.texts()[1] == ("assistant", "")
        assert "▸ thought for 2 words" in bench.screen_text
        await bench.press("escape", "y")
        assert bench.app.clipboard == "first second", "there is nothing else to copy"
        assert bench.said[-1] == "copied what was thought, 12 characters"
        await bench.press("ctrl+o")
        assert "first second" in bench.screen_text


async def test_t_says_where_nothing_was_thought_and_names_its_own_key(tmp_path: Path) -> None:
    bench = Bench(tmp_path, keymap={"chat.thinking": ("T",)}, script=lambda request: "<think>a</think>b")
    async with bench.run():
        await bench.press("escape", "T")
        assert bench.said[-1] == "nothing was thought here"
        await bench.press("i")
        await bench.ask("q")
        assert "▸ thought for 1 word · T unfolds" in bench.screen_text
        await bench.press("escape", "K", "K", "T")
        assert bench.said[-1] == "nothing was thought before this message"
