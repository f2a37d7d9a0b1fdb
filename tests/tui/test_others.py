"""Two chatkv over the same sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from chatkv.chat.presence import Presence
from chatkv.chat.store import SessionStore
from chatkv.tui.sessions.around import Around
from tests.tui.helpers import Bench


@asynccontextmanager
async def one_session(folder: Path) -> AsyncIterator[tuple[Bench, SessionStore]]:
    """An app with one session of one question; and another process's store over the same folder."""
    bench = Bench(folder)
    async with bench.run():
        await bench.ask("first")
        other = SessionStore(folder / "sessions")
        other.load_all()
        yield bench, other


async def test_what_another_says_in_the_session_comes_in(tmp_path: Path) -> None:
    async with one_session(tmp_path) as (bench, other):
        (theirs,) = other.conversations
        other.append(theirs, theirs.append("user", "[/theirs]"))
        other.append(theirs, theirs.append("assistant", "an answer to them"))
        other.rename(theirs, "renamed")
        bench.app.look_around()
        await bench.settle()
        assert bench.said[-1] == "another chatkv went on in this session: 2 messages came in"
        assert "an answer to them" in bench.screen_text
        assert bench.session.name == "renamed"
        await bench.ask("and on")
        assert [text for _, text in bench.texts()][-3:-1] == ["an answer to them", "and on"]
        said = len(bench.said)
        bench.app.look_around()
        assert len(bench.said) == said  # what was written here is no news


async def test_a_chat_that_goes_on_elsewhere_is_told_of_once(
    tmp_path: Path,
) -> None:
    async with one_session(tmp_path) as (bench, other):
        bench.hold_timers()
        (theirs,) = other.conversations

        async def they_say(text: str) -> list[str]:
            other.append(theirs, theirs.append("user", text))
            bench.app.look_around()
            await bench.settle()
            return [line for line in bench.said if "another chatkv" in line]

        for n in range(1, 4):
            assert len(await they_say(f"said {n}")) == 1
            assert f"said {n}" in bench.screen_text
        # Another session is looked at: a mark in the list, and no word.
        await bench.press("ctrl+n")
        for n in range(4, 7):
            assert len(await they_say(f"said {n}")) == 1
            assert "1 first ○" in bench.screen_text
        await bench.press("alt+1")
        told = [line for line in bench.said if "another chatkv" in line][1:]
        assert told == ["another chatkv went on in this session: 3 messages came in"]
        assert "said 6" in bench.screen_text
        assert "○" not in bench.screen_text
        # So does what is said here: the next word from there is an answer to it.
        await bench.ask("ours")
        theirs = other.catch_up(theirs) and other.conversations[0]
        theirs.set_head(bench.session.conversation.head)
        assert len(await they_say("said 7")) == 3


async def test_what_was_said_in_both_at_once_is_two_branches(tmp_path: Path) -> None:
    async with one_session(tmp_path) as (bench, other):
        (theirs,) = other.conversations
        other.append(theirs, theirs.append("user", "theirs"))
        await bench.ask("ours")
        assert "on a branch of their own" in bench.said[-1]
        assert [text for role, text in bench.texts() if role == "user"] == ["first", "ours"]
        answer = bench.session.conversation.path()[1]
        assert [m.text for m in bench.session.conversation.children(answer.id)] == ["theirs", "ours"]
        (loaded,) = SessionStore(tmp_path / "sessions").load_all()[0]
        assert set(loaded.messages) == set(bench.session.conversation.messages)


async def test_while_an_answer_comes_the_screen_stays_with_it(tmp_path: Path) -> None:
    async with one_session(tmp_path) as (bench, other):
        await bench.ask("a b c d", steps=2)
        other.append(other.conversations[0], other.conversations[0].append("user", "theirs"))
        bench.app.look_around()
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts()[-1] == ("assistant", "You said: a b c d")


async def test_new_sessions_and_removed_files_are_noticed(tmp_path: Path) -> None:
    async with one_session(tmp_path) as (bench, other):
        new = other.create("made elsewhere")
        other.append(new, new.append("user", "x"))
        bench.app.look_around()
        await bench.settle()
        assert [s.name for s in bench.app.book.sessions] == ["first", "made elsewhere"]
        assert bench.session.name == "first"
        other.delete(other.conversations[0])
        for _ in range(2):
            bench.app.look_around()
        await bench.settle()
        assert [line for line in bench.said if "was removed" in line] == [
            "this session's file was removed; what is said next writes it again, whole"
        ]
        await bench.ask("again")
        assert bench.texts() in bench.on_disk()


async def test_sessions_on_other_screens_are_marked(tmp_path: Path) -> None:
    async with one_session(tmp_path) as (bench, _):
        folder = tmp_path / "sessions"
        bench.app.around = Around(bench.app.book, Presence(folder))
        bench.app.look_around()
        assert (folder / ".open" / str(os.getpid())).read_text() == bench.session.conversation.id
        script = (
            "import sys, pathlib; from chatkv.chat.presence import Presence\n"
            "p = Presence(pathlib.Path(sys.argv[1])); p.show(sys.argv[2])\n"
            "print(*p.others(), flush=True); sys.stdin.read()"
        )
        id = bench.session.conversation.id
        with subprocess.Popen(
            [sys.executable, "-c", script, str(folder), id],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == id
            bench.app.look_around()
            await bench.pilot.pause(0.2)  # drawn without anything else that changes
            assert "1 first ⇄" in bench.screen_text
            process.kill()  # its file stays, and counts no more
        bench.app.look_around()
        await bench.settle()
        assert "⇄" not in bench.screen_text
        assert [path.name for path in (folder / ".open").iterdir()] == [str(os.getpid())]
        bench.app.around.close()
        assert not list((folder / ".open").iterdir())
