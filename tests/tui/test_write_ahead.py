"""An answer is on disk when the engine has ended it, whatever the screen is doing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from chatkv.chat.presence import Presence
from chatkv.chat.store import SessionStore
from chatkv.tui.sessions.around import Around
from tests.tui.helpers import Bench


async def test_an_answer_is_on_disk_before_the_screen_knows_of_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a question", steps=0)
        bench.engine.finish_all()  # nothing of the screen's has run since
        assert bench.session.running is not None
        assert bench.on_disk() == [[("user", "a question"), ("assistant", "You said: a question")]]
        (early,), _ = SessionStore(tmp_path / "sessions").load_all()
        await bench.settle()
        (late,), problems = SessionStore(tmp_path / "sessions").load_all()
        assert problems == []
        assert late.messages == early.messages == bench.session.conversation.messages
        answer = late.path()[-1]
        assert list(answer.token_ids or ()) == bench.engine.encode("You said: a question")
        assert answer.meta["model"] == "SmolLM2-135M"
        assert answer.meta["reason"] == "stop"
        (path,) = (tmp_path / "sessions").glob("*.jsonl")
        assert path.read_bytes().count(f'"id":"{answer.id}"'.encode()) == 1


async def test_several_answers_at_once_too(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a question")
        bench.app.desk.answer(bench.session, None, 3)
        bench.engine.finish_all()
        (conv,), _ = SessionStore(tmp_path / "sessions").load_all()
        assert len(conv.messages) == 5
        await bench.settle()
        assert set(bench.session.conversation.messages) == set(conv.messages)


async def test_what_the_engine_said_last_is_kept_though_the_session_is_deleted_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a question", steps=2)
        bench.engine.finish_all()
        bench.app.book.delete(bench.session)
        await bench.settle()
        bench.app.book.undelete()
        texts = [("user", "a question"), ("assistant", "You said: a question")]
        assert bench.texts() == texts
        assert bench.on_disk() == [texts]


async def test_a_late_last_word_is_no_answer_to_another_question(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a question", steps=2)
        session = bench.session
        bench.app.book.delete(session)
        bench.app.book.undelete()
        bench.app.desk.ask(session, "another")
        bench.engine.finish_all()  # both
        await bench.settle()
        answers = [m.text for m in session.conversation.messages.values() if m.role == "assistant"]
        assert answers[1:] == ["You said: another"]
        assert answers[0] in "You said: a question"
        (conv,), _ = SessionStore(tmp_path / "sessions").load_all()
        assert conv.messages == session.conversation.messages


async def test_nothing_is_written_where_nothing_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, store=SessionStore(tmp_path / "sessions", "--no-save asks for it"))
    async with bench.run():
        await bench.ask("a question")
        assert bench.texts()[-1] == ("assistant", "You said: a question")
    assert not (tmp_path / "sessions").exists()


async def test_a_full_disk_is_told_and_the_answer_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with bench.run():
        await bench.ask("a question", steps=0)
        with monkeypatch.context() as patch:
            patch.setattr("chatkv.chat.disk.add", full)
            bench.engine.finish_all()
            await bench.settle()
            assert "no space left on device" in bench.said[-1]
        assert bench.app.book.save_again()
        (conv,), problems = SessionStore(tmp_path / "sessions").load_all()
        assert problems == []
        assert conv.messages == bench.session.conversation.messages


async def test_an_answer_of_ones_own_is_no_news(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a question", steps=0)
        other = SessionStore(tmp_path / "sessions")
        (theirs,), _ = other.load_all()
        bench.engine.finish_all()
        other.rename(theirs, "renamed")  # so that the file is read again
        bench.app.book.catch_up(bench.session)
        await bench.settle()
        assert not [line for line in bench.said if "another chatkv" in line]
        assert bench.session.name == "renamed"


async def test_what_was_cut_off_since_the_last_look_is_written_on_quitting(tmp_path: Path) -> None:
    from chatkv.tui.app import _rescue

    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a question")
        before = bench.on_disk()
        (path,) = (tmp_path / "sessions").glob("*.jsonl")
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
        await bench.press("ctrl+q")
    assert _rescue(bench.app.book, tmp_path / "sessions")
    assert bench.on_disk() == before


async def test_undo_of_a_delete_finds_what_another_chatkv_made_of_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a question")
        session = bench.session
        other = SessionStore(tmp_path / "sessions")
        (theirs,), _ = other.load_all()
        bench.app.around = Around(bench.app.book, Presence(tmp_path / "sessions"))
        bench.app.book.delete(session)
        other.append(theirs, theirs.append("user", "and theirs"))
        bench.app.look_around()
        assert [s.name for s in bench.app.book.sessions if s.stored] == ["a question"]
        await bench.app.action_undelete()
        await bench.settle()
        assert [s.name for s in bench.app.book.sessions if s.stored] == ["a question"]
        assert bench.session.stored
        assert {m.text for m in bench.session.conversation.messages.values()} >= {"a question", "and theirs"}
        assert "nothing to bring back" not in bench.said
        bench.app.around.close()


async def test_a_deleted_session_that_was_never_saved_is_saved_at_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with bench.run():
        with monkeypatch.context() as patch:
            patch.setattr("chatkv.chat.disk.write_new", full)
            await bench.ask("a question")
            bench.app.book.delete(bench.session)
            assert bench.app.book.unsaved
        assert bench.app.book.save_again()
        assert bench.on_disk() == []
        (conv,), _ = SessionStore(tmp_path / "sessions" / "deleted").load_all()
        assert [m.text for m in conv.path()] == ["a question", "You said: a question"]


async def test_an_engine_that_is_over_answers_nobody(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a question", steps=2)
        old = bench.engine
        old.fail("it broke")
        await bench.settle()
        bench.app.restart_engine()
        bench.engine.ready()
        await bench.settle()
        await bench.ask("another", steps=1)
        before = bench.on_disk()
        old.finish_all()  # its request has the number of the new one's
        assert bench.on_disk() == before
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts()[-1] == ("assistant", "You said: another")
        assert bench.on_disk() == [bench.texts()]
