"""The engine dies under the chat, and is started again from inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.chat.store import SessionStore
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Batch, EngineMessage, Finished, Sampling
from chatkv.engine.thread import Engine
from chatkv.tui.app import ChatkvApp
from chatkv.tui.palette import entries
from tests.tui.helpers import Bench

WHY = "the engine stopped: PanicException: index out of bounds"


async def test_a_dead_engine_is_told_and_started_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(160, 50)):
        await bench.ask("hello there")
        old = bench.engine
        before = bench.texts()
        await bench.ask("and now", steps=3)
        bench.engine.fail(WHY)
        await bench.settle()
        # In one line what happened and what can be done; what had come of the answer is kept.
        assert f"✗ {WHY} · /restart-engine starts it again" in bench.screen_text
        assert [text for _, text in bench.texts()[:3]] == [*(text for _, text in before), "and now"]
        partial = bench.texts()[3][1]
        assert partial
        assert "You said: and now".startswith(partial)
        await bench.type("are you there?")
        assert any("/restart-engine" in line for line in bench.said)
        assert bench.app.main.prompt.text == "are you there?"
        await bench.type("/restart-engine")
        assert bench.engine is not old
        assert bench.engine.started
        assert "✗" not in bench.screen_text
        mirror = bench.app.desk.feed.mirror
        assert (mirror.cache, len(mirror.nodes)) == ("", 1)
        await bench.type("are you there?")  # waits until it is ready
        assert bench.session.running is not None
        # What the old one may still say is heard by nobody.
        old.finish_all()
        ended = Finished(1, bench.session.key, "stop", "", "wrong", (1,), 1, 0, 0, 1, None, 0.0)
        old.listener(Batch(0.0, finished=(ended,)))
        old.fail("once more")
        await bench.settle()
        assert bench.session.running is not None
        assert bench.app.desk.failed == ""
        bench.engine.ready()
        await bench.settle()
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts()[-2:] == [("user", "are you there?"), ("assistant", "You said: are you there?")]
        assert bench.on_disk() == [bench.texts()]
        mirror = bench.app.desk.feed.mirror
        assert mirror.check() == []
        assert len(mirror.nodes) > 1
        lines = bench.app.main.cache.log_view._diary.lines
        assert lines[-1].text.startswith("engine restarted: an empty cache")


async def test_what_waits_for_a_dead_engine_gets_an_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one two")
        measured: list[str] = []
        answer = bench.session.last_answer
        assert answer is not None
        bench.engine.measure = lambda *_: None  # type: ignore[method-assign]
        bench.engine.verify = lambda request: None  # type: ignore[method-assign]
        assert bench.app.desk.measure(bench.session, answer, lambda m: measured.append(m.problem))
        assert bench.app.desk.verify(bench.session, answer) == ""
        bench.session.notes[answer.id] = "verifying"
        bench.engine.fail(WHY)
        await bench.settle()
        assert measured == [WHY]
        assert bench.session.notes[answer.id] == f"not verified: {WHY}"


async def test_an_answer_of_the_dead_engine_is_not_taken_for_one_of_the_next(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one two")
        await bench.press("ctrl+n")
        await bench.ask("three four")
        deleted = bench.session
        assert deleted.requests
        bench.app.book.delete(deleted)
        bench.engine.fail(WHY)
        await bench.type("/restart-engine")
        bench.engine.ready()
        await bench.settle()
        assert bench.app.book.undelete() is deleted
        for session in bench.app.book.sessions:
            assert session.requests == {}
        answer = deleted.last_answer
        assert answer is not None
        assert "only answers of this run" in bench.app.desk.verify(deleted, answer)


async def test_an_engine_that_runs_or_loads_is_not_started_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(ready=False):
        engine = bench.engine
        await bench.type("/restart-engine")
        assert bench.said[-1] == "the engine is still starting"
        engine.ready()
        await bench.settle()
        await bench.type("/restart-engine")
        assert "nothing to start again" in bench.said[-1]
        assert bench.engine is engine


async def test_the_palette_starts_it_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        engine = bench.engine
        engine.fail(WHY)
        await bench.settle()
        next(entry for entry in entries(bench.app) if entry.title == "Restart the engine").run()
        await bench.settle()
        assert bench.engine is not engine


async def test_a_thread_that_is_gone_without_a_word_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one two", steps=2)
        bench.app.look_around()
        assert bench.app.desk.failed == ""
        bench.engine.alive = False
        bench.app.look_around()
        await bench.settle()
        assert "could not say why" in bench.app.desk.failed
        assert bench.session.running is None
        assert "/restart-engine" in bench.screen_text


async def test_a_held_picture_is_let_go_when_the_engine_starts_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one two")
        bench.app.main.action_freeze()
        bench.engine.fail(WHY)
        await bench.type("/restart-engine")
        bench.engine.ready()
        await bench.settle()
        await bench.ask("three")
        assert not bench.app.desk.feed.frozen
        assert bench.app.desk.feed.mirror.check() == []
        assert len(bench.app.desk.feed.mirror.nodes) > 1


@pytest.mark.model
async def test_the_real_engine_is_started_again(
    tmp_path: Path, smollm2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = EngineConfig(model=str(smollm2_folder), num_blocks=64, threads=1)
    engines: list[Engine] = []

    def make(listener: object) -> Engine:
        def hear(said: EngineMessage) -> None:
            assert callable(listener)
            listener(said)

        engines.append(Engine(config, hear))
        return engines[-1]

    app = ChatkvApp(make, SessionStore(tmp_path), sampling=Sampling(max_tokens=6), pictures=tmp_path)
    async with app.run_test(size=(120, 36)) as pilot:

        async def ask(text: str) -> None:
            app.main.prompt.load(text)
            await pilot.press("enter")
            await pilot.pause()

        async def until(state: object) -> None:
            assert callable(state)
            while not state():
                await pilot.pause(0.05)

        await until(lambda: app.desk.ready is not None)
        await ask("Name a colour.")
        await until(lambda: not app.book.running)
        with monkeypatch.context() as patch:

            def die(core: object) -> None:
                raise SystemExit(3)

            patch.setattr("chatkv.engine.core.EngineCore.step", die)
            await ask("And another?")
            await until(lambda: app.desk.failed)
        assert "SystemExit: 3" in app.desk.failed
        assert not app.book.running
        assert app.main.prompt.text == "And another?"
        app.action_restart_engine()
        await until(lambda: app.desk.ready is not None)
        await pilot.press("enter")
        await until(lambda: len(app.book.current.conversation.path()) == 4 and not app.book.running)
        assert app.desk.feed.mirror.check() == []
    assert [engine.alive for engine in engines[:1]] == [False]
    assert engines[1].close(60)
