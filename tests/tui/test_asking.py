"""Questions and answers: what is sent, shown, stopped, kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.chat.store import SessionStore
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Sampling, Turn
from chatkv.tui.app import ChatkvApp, run
from tests.tui.fake_engine import FakeEngine
from tests.tui.helpers import Bench


async def test_an_answer_streams_and_is_kept_with_its_figures(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello there friend", steps=2)
        assert "You said" in bench.screen_text
        assert "friend" not in bench.screen_text.split("You said")[1].split("\n")[0]
        assert "▌ 2 tokens" in bench.screen_text
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts() == [
            ("user", "hello there friend"),
            ("assistant", "You said: hello there friend"),
        ]
        assert "reused 0 │ computed 5 │ ttft 41 ms" in bench.screen_text
        answer = bench.session.last_answer
        assert answer is not None
        assert answer.token_ids is not None
        assert bench.engine.decode(answer.token_ids) == answer.text
        assert bench.on_disk() == [bench.texts()]


async def test_the_next_turn_goes_in_with_the_sampled_ids_and_hits(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one two three")
        await bench.ask("four")
        answer = bench.session.conversation.path()[1]
        assert bench.engine.requests[1].prompt == (
            Turn("user", "one two three"),
            Turn("assistant", "You said: one two three", answer.token_ids),
            Turn("user", "four"),
        )
        last = bench.session.last_answer
        assert last is not None
        # Prompt and answer of the first turn, less the last sampled token, whose KV does not exist.
        assert last.meta["cached"] == 10
        assert "reused 10 (10 copied)" in bench.screen_text


async def test_the_system_prompt_comes_first(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    store.create("with system", "Be brief.")
    bench = Bench(tmp_path)
    async with bench.run():
        assert "system Be brief." in bench.screen_text
        await bench.ask("hi")
        assert bench.engine.requests[0].prompt[0] == Turn("system", "Be brief.")


async def test_ids_of_another_model_are_not_sent(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create("old")
    store.append(conversation, conversation.append("user", "hi"))
    store.append(conversation, conversation.append("assistant", "yo", token_ids=[1], meta={"model": "other"}))
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("again")
        assert bench.engine.requests[0].prompt[1] == Turn("assistant", "yo", None)


async def test_a_question_before_the_model_is_loaded_waits_for_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(ready=False):
        assert "loading torch" in bench.screen_text
        await bench.type("early")
        assert bench.engine.requests == []
        assert "waiting for the model to load" in bench.screen_text
        bench.engine.ready()
        await bench.settle()
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts() == [("user", "early"), ("assistant", "You said: early")]
        assert "loading torch" not in bench.screen_text


async def test_a_waiting_question_can_be_taken_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(ready=False):
        await bench.type("early")
        await bench.press("escape")
        assert bench.app.main.prompt.text == "early"
        bench.engine.ready()
        await bench.settle()
        assert bench.engine.requests == []


async def test_escape_stops_and_keeps_what_has_come(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c d e f g", steps=4)
        await bench.press("escape")
        bench.engine.step()
        await bench.settle()
        assert bench.session.running is None
        assert bench.texts()[1] == ("assistant", "You said: a")
        assert "stopped" in bench.screen_text
        assert bench.on_disk() == [bench.texts()]
        await bench.ask("go on")
        assert len(bench.texts()) == 4


async def test_stopping_is_said_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c d e f g", steps=4)
        await bench.press("escape")
        assert bench.session.running
        assert "▌ 4 tokens · stopping…" in bench.screen_text
        bench.engine.step()
        await bench.settle()
        assert "stopping" not in bench.screen_text


async def test_a_very_long_answer_is_shown_in_part_and_copied_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatkv.tui.chat.messages.SHOWN_ANSWER", 30)
    text = "word " * 6 + "unseen " * 10
    bench = Bench(tmp_path, script=lambda request: text)
    async with bench.run(size=(80, 24)):
        await bench.ask("go")
        assert "unseen" not in bench.screen_text
        assert "… 70 more characters (y copies all)" in bench.screen_text
        bench.app.action_copy_answer()
        assert bench.app.clipboard == text
    again = Bench(tmp_path)
    async with again.run(size=(80, 24)):
        assert "word word" in again.screen_text
        assert "unseen" not in again.screen_text
        assert "… 70 more characters" in again.screen_text


async def test_stopped_before_the_first_token_gives_the_question_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type("never mind")
        await bench.press("escape")
        bench.engine.step()
        await bench.settle()
        assert bench.texts() == []
        assert bench.app.main.prompt.text == "never mind"
        assert "stopped before the first token" in bench.screen_text


async def test_a_refused_question_says_what_to_do_and_keeps_the_text(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        bench.app.main.action_captions()  # the caption would say it, too
        await bench.ask("fine")
        await bench.type("far too long")
        bench.engine.refuse("9,000 tokens don't fit the context of 2,048: shorten it or fork")
        await bench.settle()
        assert bench.app.main.prompt.text == "far too long"
        assert "don't fit the context of 2,048" in bench.screen_text
        assert bench.texts()[-1] == ("assistant", "You said: fine")
        await bench.ask("short")
        assert "don't fit" not in bench.screen_text
        assert [t.text for t in bench.engine.requests[-1].prompt] == ["fine", "You said: fine", "short"]


async def test_a_refusal_does_not_overwrite_what_is_being_typed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type("too long")
        bench.app.main.prompt.load("already typing")
        bench.engine.refuse("no")
        await bench.settle()
        assert bench.app.main.prompt.text == "already typing"
        assert "too long" in bench.screen_text


async def test_an_error_keeps_the_part_and_shows_the_message(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c d", steps=3)
        bench.engine.error("the forward failed: out of memory")
        await bench.settle()
        assert bench.texts()[1] == ("assistant", "You said:")
        assert bench.screen_text.count("out of memory") == 1
        assert "ended by an error" not in bench.screen_text, "once"
        await bench.ask("again")
        assert "out of memory" in bench.screen_text, "it goes on to stand where it happened"
    again = Bench(tmp_path)
    async with again.run():
        assert "the forward failed: out of memory" in again.screen_text


async def test_a_full_pool_ends_the_answer_and_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, num_blocks=2, block_size=4)
    async with bench.run():
        await bench.ask("a b c d")
        assert bench.screen_text.count("the KV pool is full") == 1
        assert bench.texts()[1][1].startswith("You said")
    again = Bench(tmp_path)
    async with again.run():
        assert again.screen_text.count("the KV pool is full") == 1


async def test_regenerating_makes_a_sibling_and_both_can_be_seen(tmp_path: Path) -> None:
    answers = iter(["first answer", "second answer"])
    bench = Bench(tmp_path, script=lambda request: next(answers))
    async with bench.run():
        await bench.ask("q")
        await bench.press("ctrl+r")
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts() == [("user", "q"), ("assistant", "second answer")]
        assert "2/2" in bench.screen_text
        assert "first answer" not in bench.screen_text
        await bench.press("escape", "left")
        assert bench.texts()[1] == ("assistant", "first answer")
        assert "first answer" in bench.screen_text
        await bench.press("right_square_bracket")
        assert "second answer" in bench.screen_text


async def test_a_regeneration_without_a_token_falls_back_to_the_old_answer(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("q")
        await bench.press("ctrl+r", "escape")
        bench.engine.step()
        await bench.settle()
        assert bench.texts() == [("user", "q"), ("assistant", "You said: q")]
        assert bench.app.main.prompt.text == ""


async def test_editing_replaces_the_last_question(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("first")
        await bench.ask("typo")
        await bench.press("escape", "e")
        assert bench.app.main.prompt.text == "typo"
        await bench.ask("fixed")
        assert [t for r, t in bench.texts() if r == "user"] == ["first", "fixed"]
        assert [t.text for t in bench.engine.requests[-1].prompt if t.role == "user"] == ["first", "fixed"]


async def test_an_edit_can_be_dropped(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("keep me")
        await bench.press("escape", "e", "escape")
        assert bench.app.main.prompt.text == ""
        await bench.ask("next")
        assert [t for r, t in bench.texts() if r == "user"] == ["keep me", "next"]


async def test_questions_without_an_answer_are_joined_for_the_model(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create("killed")
    store.append(conversation, conversation.append("user", "before the crash"))
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("after it")
        assert bench.engine.requests[0].prompt == (Turn("user", "before the crash\n\nafter it"),)


async def test_an_unanswered_question_can_be_answered_later(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create("killed")
    store.append(conversation, conversation.append("user", "q"))
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("ctrl+r")
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts() == [("user", "q"), ("assistant", "You said: q")]


async def test_a_session_answers_one_question_at_a_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c d e f", steps=1)
        await bench.type("impatient")
        assert len(bench.engine.requests) == 1
        assert bench.app.main.prompt.text == "impatient"
        assert any("still answering" in line for line in bench.said)


async def test_blank_text_is_not_sent(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type(" \n ")
        assert bench.engine.requests == []


async def test_without_a_model_sessions_can_be_read_and_the_exit_code_tells(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create("old")
    store.append(conversation, conversation.append("user", "an old question"))
    bench = Bench(tmp_path)
    async with bench.run(ready=False):
        bench.engine.fail("no such model 'x'; see chatkv models")
        await bench.settle()
        assert "no such model 'x'; see chatkv models" in bench.screen_text
        assert "an old question" in bench.screen_text
        await bench.type("anyone?")
        assert bench.texts() == [("user", "an old question")]
        assert bench.app.main.prompt.text == "anyone?"
        await bench.pilot.press("ctrl+q")
    assert bench.app.return_code == 1


def test_the_reason_a_chat_had_no_model_is_told_in_full_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = "/models/broken.gguf is not a GGUF file; download it again, or give a Hugging Face folder"

    def fail(self: ChatkvApp) -> None:
        self.desk.failed = reason

    monkeypatch.setattr(ChatkvApp, "run", fail)
    run(EngineConfig(), Sampling(), SessionStore(tmp_path / "sessions"))
    assert capsys.readouterr().err == f"chatkv: {reason}\n"


async def test_an_engine_that_dies_leaves_what_has_come(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c d", steps=3)
        bench.engine.fail("the engine stopped: start chatkv again")
        await bench.settle()
        assert bench.texts()[1] == ("assistant", "You said:")
        assert "start chatkv again" in bench.screen_text
        assert bench.on_disk() == [bench.texts()]


async def test_quitting_while_an_answer_runs_keeps_its_part(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c d", steps=3)
        await bench.pilot.press("ctrl+q")
    assert bench.app.return_code == 0
    assert bench.on_disk() == [[("user", "a b c d"), ("assistant", "You said:")]]


async def test_what_cannot_be_saved_is_said_and_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sessions"
    folder.write_text("a file where the folder should be")
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("still works")
        assert bench.texts()[1] == ("assistant", "You said: still works")
        assert any("can't" in line for line in bench.said)
        folder.unlink()
        await bench.ask("and now")
        assert bench.on_disk() == [bench.texts()]
        assert len(bench.texts()) == 4


async def test_copying_the_answer_gives_its_markdown(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "**bold** and `code`")
    async with bench.run():
        await bench.ask("q")
        await bench.press("escape", "y")
        assert bench.app.clipboard == "**bold** and `code`"


async def test_ctrl_c_never_quits(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("ctrl+c")
        assert bench.app.is_running
        assert any("ctrl+q quits" in line for line in bench.said)


async def test_scrolled_up_the_view_stays_while_text_comes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "\n\n".join(f"line {n}" for n in range(40)))
    async with bench.run():
        await bench.ask("long one")
        view = bench.app.main.chat.view
        assert view is not None
        assert view.scroll_offset.y == view.max_scroll_y > 0
        await bench.type("again")
        bench.engine.step(10)
        await bench.settle()
        view.focus()
        await bench.press("pageup", "pageup")
        place = view.scroll_offset.y
        assert place < view.max_scroll_y
        bench.engine.finish_all()
        await bench.settle()
        assert view.scroll_offset.y == place
        assert "more below" in bench.screen_text
        await bench.press("G")
        assert view.scroll_offset.y == view.max_scroll_y


async def test_a_long_conversation_mounts_a_window_and_more_on_demand(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create("long")
    for n in range(70):
        store.append(conversation, conversation.append("user", f"question {n}"))
    bench = Bench(tmp_path)
    async with bench.run():
        view = bench.app.main.chat.view
        assert view is not None
        assert len(view.query("UserView")) == 24
        assert "question 69" in bench.screen_text
        view.focus()
        await bench.press("g")
        assert "46 earlier messages" in bench.screen_text
        await bench.press("g")
        assert len(view.query("UserView")) == 48


def test_the_fake_engine_offers_what_the_real_one_does() -> None:
    from chatkv.engine.thread import Engine

    for verb in ("start", "submit", "stop", "clear_cache", "pin", "measure", "verify", "decode", "close"):
        assert callable(getattr(Engine, verb))
        assert callable(getattr(FakeEngine, verb))
