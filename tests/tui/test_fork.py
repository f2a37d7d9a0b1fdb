"""Forking at any message, with its cost shown before; verifying."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.tui.dialogs.fork import ForkDialog
from tests.tui.helpers import Bench


async def test_the_cost_is_shown_before_one_forks_at_any_message(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)):
        await bench.ask("one two three")
        await bench.ask("four")
        await bench.press("ctrl+o")
        assert isinstance(bench.app.screen, ForkDialog)
        assert "next question: 17 tokens reused from the cache, 3 and its own computed" in bench.screen_text
        await bench.press("up", "k")
        assert "next question: 12 tokens reused from the cache, 1 and its own computed" in bench.screen_text
        await bench.press("up")
        assert "answering it: 4 tokens reused from the cache, 1 computed" in bench.screen_text
        await bench.press("down", "enter")
        assert bench.texts() == [("user", "one two three"), ("assistant", "You said: one two three")]
        assert bench.session.name == "one two three ⑂1"
        await bench.ask("x")
        answer = bench.session.last_answer
        assert answer is not None
        assert (answer.meta["cached"], answer.meta["computed"]) == (12, 2)


async def test_the_cost_changes_with_the_cache(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one two three")
        await bench.type("/clear cache")
        await bench.press("ctrl+o")
        assert "next question: 0 tokens reused from the cache, 13 and its own computed" in bench.screen_text


async def test_the_cost_follows_the_cache_while_one_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatkv.tui.dialogs.fork.AGAIN_S", 0.02)
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one two three")
        await bench.press("ctrl+o")
        assert "next question: 10 tokens reused" in bench.screen_text
        bench.engine.clear_cache()
        await bench.pilot.pause(0.1)
        await bench.settle()
        assert "next question: 0 tokens reused" in bench.screen_text


async def test_a_selected_message_is_where_it_starts(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.ask("two")
        await bench.press("escape", "K", "K", "K", "K", "ctrl+o", "ctrl+o")
        assert bench.texts() == [("user", "one")]
        await bench.press("ctrl+r")
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts() == [("user", "one"), ("assistant", "You said: one")]


async def test_esc_forks_nothing_and_a_running_answer_is_not_forked(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.press("ctrl+o", "escape")
        assert len(bench.app.book.sessions) == 1
        await bench.ask("two", steps=1)
        await bench.press("ctrl+o")
        assert any("still answering" in line for line in bench.said)


async def test_without_a_model_one_can_fork_and_the_cost_is_unknown(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
    again = Bench(tmp_path)
    async with again.run(ready=False):
        await again.press("ctrl+o")
        assert "not known before the model is loaded" in again.screen_text
        await again.press("enter")
        assert len(again.app.book.sessions) == 2


async def test_an_answer_is_verified_and_the_result_stands_under_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type("/verify")
        assert any("no answer to verify" in line for line in bench.said)
        bench.app.main.prompt.load("")
        await bench.ask("one")
        await bench.press("escape", "v")
        assert "request 1: the same 3 tokens" in bench.screen_text
        await bench.press("ctrl+o", "enter")
        await bench.type("/verify")
        assert bench.session.name == "one ⑂1"
        assert "request 1: the same 3 tokens" in bench.screen_text
    again = Bench(tmp_path)
    async with again.run():
        await again.type("/verify")
        assert any("only answers of this run" in line for line in again.said)


async def test_what_the_engine_verifies_by_itself_stands_under_its_answer(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.ask("two")
        bench.engine.verify(1)  # as with --verify: nobody asked for it here
        await bench.settle()
        first = bench.session.conversation.path()[1]
        assert bench.session.notes == {first.id: "request 1: the same 3 tokens"}
        assert "request 1: the same 3 tokens" in bench.screen_text
