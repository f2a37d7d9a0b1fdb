"""Finding, sorting, and bringing back sessions; conversations in and out."""

from __future__ import annotations

import json
from pathlib import Path

from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation
from chatkv.tui.sessions.picker import SessionPicker
from chatkv.tui.sessions.search import SearchDialog, search
from chatkv.tui.sessions.session import Session
from tests.tui.helpers import Bench


async def test_a_word_of_any_session_is_found_and_gone_to(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)):
        await bench.ask("apples are red")
        await bench.ask("[red]pears\x1b[2J")
        await bench.press("ctrl+n")
        await bench.ask("bananas")
        await bench.press("ctrl+f", *"RED apples")
        assert isinstance(bench.app.screen, SearchDialog)
        assert "2 found · enter go there" in bench.screen_text
        await bench.press("down", "enter")
        assert bench.session.name == "apples are red"
        assert "▸you" in bench.screen_text
        await bench.press("y")
        assert bench.app.clipboard == "apples are red"
        await bench.type("/search pears")
        assert "[red]pears[2J" in bench.screen_text
        await bench.press("escape")
        assert bench.app.screen is bench.app.main


async def test_a_message_of_another_branch_is_gone_to(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("first wording")
        await bench.press("escape", "e")
        await bench.ask("second")
        await bench.press("ctrl+f", *"wording", "enter")
        assert bench.texts()[0] == ("user", "first wording")


async def test_a_message_far_up_is_gone_to(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create("long")
    for n in range(120):
        store.append(conversation, conversation.append("user", f"message {n} of many"))
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("ctrl+n", "ctrl+f", *"message 7 of", "enter")
        assert "▸you    message 7 of many" in bench.screen_text
        view = bench.app.main.chat.view
        assert view is not None
        assert view.has_focus


async def test_nothing_found_goes_nowhere(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.press("ctrl+f", *"zebra", "enter")
        assert "0 found" in bench.screen_text
        await bench.press("escape")
        assert bench.app.screen is bench.app.main


def test_names_system_prompts_and_all_branches_are_searched_newest_first() -> None:
    def session(name: str, at: float, *texts: str) -> Session:
        conversation = Conversation(name=name, system="Sys tem")
        for text in texts:
            conversation.append("user", text, meta={"time": at}, parent=None)
        return Session(name, conversation)

    old, new = (
        session("old", 1.0, "alpha beta", "ALPHA"),
        session("new alpha", 2.0, "x" * 500 + " alpha " + "y" * 500),
    )
    hits = [hit for hit in search([old, new], "alpha") if hit]
    assert [(hit.session.name, hit.who) for hit in hits] == [
        ("new alpha", "name"),
        ("new alpha", "user"),
        ("old", "user"),
        ("old", "user"),
    ]
    assert hits[1].where.startswith("…x")
    assert " alpha y" in hits[1].where
    assert [hit.where for hit in search([old], "beta alpha") if hit] == ["alpha beta"]
    assert [hit.who for hit in search([old], "sys") if hit] == ["system"]
    assert list(search([old], "  ")) == []


def test_hundreds_of_sessions_are_searched_in_small_steps() -> None:
    sessions = []
    for n in range(300):
        conversation = Conversation(name=f"s{n}")
        for m in range(40):
            conversation.append("user", f"{'word ' * 60} {n} {m}")
        sessions.append(Session(f"s{n}", conversation))
    steps = sum(1 for _ in search(sessions, "zebra"))
    # Every text is one step, after which the screen may draw.
    assert steps == 300 * 42


async def test_the_lists_are_sorted_and_numbers_stay(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(200, 50)):
        for text in ("bbb", "aaa", "ccc"):
            await bench.ask(text)
            await bench.press("ctrl+n")
        await bench.press("ctrl+s", "ctrl+t")
        screen = bench.app.screen
        assert isinstance(screen, SessionPicker)
        assert "Sessions · newest first" in bench.screen_text
        await bench.press("ctrl+t")
        lines = [line for line in bench.screen_text.splitlines() if " aaa " in line or " bbb " in line]
        assert "2 aaa" in lines[0]
        await bench.press("escape")
        assert "Sessions · name" in bench.screen_text
        bench.app.main.query_one("#sessions").focus()
        await bench.press("o")
        assert "Sessions · hit %" in bench.screen_text
        await bench.press("alt+1")
        assert bench.session.name == "bbb"


async def test_a_deletion_is_undone_in_the_list(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.press("ctrl+n")
        await bench.ask("two")
        await bench.press("ctrl+s", "delete", "y")
        assert "2 two" not in bench.screen_text
        await bench.press("ctrl+z")
        assert isinstance(bench.app.screen, SessionPicker)
        assert "2 two" in bench.screen_text
        assert len(bench.on_disk()) == 2
        await bench.press("ctrl+f")
        assert isinstance(bench.app.screen, SearchDialog)


async def test_a_conversation_goes_out_and_comes_in(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type(f"/export md {tmp_path}/x.md")
        assert any("nothing to export" in line for line in bench.said)
        bench.app.main.prompt.load("")
        await bench.ask("hello")
        await bench.type(f"/export json '{tmp_path}/a b.json'")
        await bench.type(f"/export md {tmp_path}/x.md")
        assert "**assistant**\n\nYou said: hello\n" in (tmp_path / "x.md").read_text()
        assert json.loads((tmp_path / "a b.json").read_text())["messages"][0]["content"] == "hello"
        await bench.type(f"/import {tmp_path}/a b.json")
        assert any("imported 1 session, 2 messages" in line for line in bench.said)
        assert bench.session is bench.app.book.sessions[1]
        assert bench.texts() == [("user", "hello"), ("assistant", "You said: hello")]
        assert len(bench.on_disk()) == 2
        await bench.ask("more")
        assert len(bench.texts()) == 4
        for text in ("/export pdf x", "/export md", "/import", f"/import {tmp_path}/x.md"):
            await bench.type(text)
            assert bench.app.main.prompt.text == text
            bench.app.main.prompt.load("")


async def test_a_message_said_in_the_background_is_gone_to_where_the_words_are(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "\n\n".join(f"line {n} of it" for n in range(60)))
    async with bench.run():
        await bench.ask("first", steps=2)
        await bench.press("ctrl+n")
        bench.engine.finish_all()
        await bench.settle()
        await bench.press("ctrl+f", *"line 2 of", "enter")
        assert "▸smol   line 0 of" in bench.screen_text.splitlines()[2]
        await bench.press("ctrl+f", *"LINE 40 of", "enter")
        assert "line 40 of" in "\n".join(bench.screen_text.splitlines()[8:24])
        assert bench.app.main.get_selected_text() == "line 40 of"
