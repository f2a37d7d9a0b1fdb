"""Sessions: new, switch, list, rename, delete and back, fork, several at once."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input, OptionList

from chatkv.chat.store import SessionStore
from chatkv.tui.sessions.picker import SessionPicker
from chatkv.tui.sessions.session import Session
from tests.tui.helpers import Bench


def names(bench: Bench) -> list[str]:
    return [s.name for s in bench.app.book.sessions]


async def test_a_new_session_leaves_no_file_until_it_is_used(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("first")
        await bench.press("ctrl+n", "ctrl+n")
        assert names(bench) == ["first", "new chat"]
        assert len(bench.on_disk()) == 1
        await bench.ask("second")
        assert sorted(names(bench)) == ["first", "second"]
        assert len(bench.on_disk()) == 2


async def test_a_new_session_right_behind_enter_leaves_the_question_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        bench.app.main.prompt.load("apples")
        bench.app.main.prompt.action_send()
        await bench.app.action_new()  # the key was there before the app had heard what was sent
        await bench.settle()
        assert names(bench) == ["apples", "new chat"]
        assert bench.session.name == "new chat"
        bench.app.main.prompt.load("bananas")
        await bench.press("alt+1", "alt+2")
        assert bench.app.main.prompt.text == "bananas"
        assert bench.app.book.sessions[0].draft == ""


async def test_switching_keeps_drafts_and_shows_the_other_conversation(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("apples")
        await bench.press("ctrl+n")
        await bench.ask("bananas")
        await bench.press(*"draft", "alt+1")
        assert "You said: apples" in bench.screen_text
        assert "You said: bananas" not in bench.screen_text
        assert bench.app.main.prompt.text == ""
        await bench.press("alt+2")
        assert bench.app.main.prompt.text == "draft"
        await bench.press("alt+9")
        assert bench.session.name == "bananas"


async def test_several_sessions_stream_at_once_each_into_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("apples are red", steps=2)
        await bench.press("ctrl+n")
        await bench.ask("bananas are yellow", steps=2)
        assert len(bench.app.book.running) == 2
        assert bench.screen_text.count("●") == 2
        await bench.press("alt+1")
        bench.engine.finish_all()
        await bench.settle()
        assert "You said: apples are red" in bench.screen_text
        assert "2 bananas are yellow ○" in bench.screen_text
        await bench.press("alt+2")
        assert "You said: bananas are yellow" in bench.screen_text
        assert "○" not in bench.screen_text
        assert [len(path) for path in bench.on_disk()] == [2, 2]


async def test_stopping_stops_the_session_on_the_screen_only(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c d e", steps=2)
        await bench.press("ctrl+n")
        await bench.ask("f g h i j", steps=2)
        await bench.press("escape")
        bench.engine.step()
        await bench.settle()
        assert [bool(s.running) for s in bench.app.book.sessions] == [True, False]


async def test_forking_shares_the_past_and_says_what_is_reused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one two three")
        await bench.press("ctrl+o", "enter")
        assert names(bench) == ["one two three", "one two three ⑂1"]
        assert bench.session.name == "one two three ⑂1"
        assert bench.texts() == [("user", "one two three"), ("assistant", "You said: one two three")]
        await bench.ask("only here")
        assert [len(path) for path in bench.on_disk()] == [2, 4]
        answer = bench.session.last_answer
        assert answer is not None
        assert answer.meta["cached"] == 10


async def test_an_empty_session_cannot_be_forked(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("ctrl+o")
        assert len(bench.app.book.sessions) == 1
        assert any("nothing to fork" in line for line in bench.said)


async def test_renaming(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        await bench.press("f2", "ctrl+u", *"rust", "enter")
        assert names(bench) == ["rust"]
        await bench.press("f2", *"xyz", "escape")
        assert names(bench) == ["rust"]
        await bench.press("f2", "ctrl+u", "space", "enter")
        assert names(bench) == ["rust"]
        assert any("can't be empty" in line for line in bench.said)
    conversations, _ = SessionStore(tmp_path / "sessions").load_all()
    assert [c.name for c in conversations] == ["rust"]


async def test_an_unsaved_session_keeps_the_name_it_was_given(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("f2", "ctrl+u", *"mine", "enter")
        await bench.ask("hello")
        assert names(bench) == ["mine"]


async def test_deleting_asks_and_can_be_undone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(200, 50)):
        await bench.ask("keep")
        await bench.press("ctrl+n")
        await bench.ask("drop")
        bench.app.main.query_one("#sessions").focus()
        await bench.settle()
        await bench.press("delete")
        assert "Delete 'drop' with 2 messages?" in bench.screen_text
        await bench.press("enter")
        assert names(bench) == ["keep", "drop"]
        await bench.press("delete", "y")
        assert names(bench) == ["keep"]
        assert "You said: keep" in bench.screen_text
        assert len(bench.on_disk()) == 1
        await bench.press("u")
        assert names(bench) == ["keep", "drop"]
        assert bench.session.name == "drop"
        assert len(bench.on_disk()) == 2
        await bench.press("u")
        assert any("nothing to bring back" in line for line in bench.said)


async def test_a_session_deleted_while_it_answers_comes_back_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("half", steps=3)
        bench.app.action_delete()
        await bench.press("y")
        bench.engine.finish_all()
        await bench.settle()
        await bench.app.action_undelete()
        await bench.settle()
        assert bench.session.running is None
        assert [m.role for m in bench.session.conversation.path()] == ["user", "assistant"]
        assert bench.session.conversation.path()[-1].text
        await bench.ask("goes on")
        assert len(bench.session.conversation.path()) == 4


async def test_renaming_a_session_without_a_file_keeps_what_was_said(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file where the folder should be")
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        assert not bench.session.stored
        bench.app.book.rename(bench.session, "mine")
        assert bench.session.name == "mine"
        assert len(bench.session.conversation.path()) == 2


async def test_deleting_the_last_session_leaves_an_empty_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("only", steps=2)
        bench.app.action_delete()
        await bench.press("y")
        assert names(bench) == ["new chat"]
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts() == []
        await bench.ask("goes on")
        assert len(bench.texts()) == 2


async def test_the_list_filters_by_name_and_by_what_was_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: f"about {request.prompt[-1].text[::-1]}")
    async with bench.run():
        await bench.ask("apples")
        await bench.press("ctrl+n")
        await bench.ask("bananas")
        await bench.press("ctrl+s", *"selppa")
        screen = bench.app.screen
        assert isinstance(screen, SessionPicker)
        assert "…about selppa" in bench.screen_text
        assert screen.query_one(OptionList).option_count == 1
        await bench.press("enter")
        assert bench.session.name == "apples"


async def test_in_the_list_keys_move_open_rename_delete_and_make(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)):
        for text in ("one", "two", "three"):
            await bench.ask(text)
            await bench.press("ctrl+n")
        await bench.press("ctrl+s", "up", "up", "enter")
        assert bench.session.name == "two"
        await bench.press("ctrl+s", "f2", "ctrl+u", *"zwei", "enter")
        assert "zwei" in bench.screen_text
        await bench.press("delete", "y", "escape")
        assert names(bench) == ["one", "three", "new chat"]
        await bench.press("ctrl+s")
        words = " ".join(bench.screen_text.translate(dict.fromkeys(map(ord, "│╭╮╰╯─"), " ")).split())
        assert "^f search" in words
        assert "^n new" in words  # none of the keys is cut off
        await bench.press("ctrl+n")
        assert bench.session.name == "new chat"
        await bench.press("ctrl+s", "escape")
        assert bench.app.screen is bench.app.main


async def test_clicks_on_chips_and_rows_switch(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        await bench.ask("apples")
        await bench.press("ctrl+n")
        await bench.ask("bananas")
        await pilot.click("#chips", offset=(3, 0))
        await bench.settle()
        assert bench.session.name == "apples"
        await pilot.resize_terminal(200, 50)
        await bench.settle()
        await pilot.click("#sessions", offset=(5, 2))
        await bench.settle()
        assert bench.session.name == "bananas"


async def test_the_newest_session_is_open_at_the_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("older")
        await bench.press("ctrl+n")
        await bench.ask("newer")
    again = Bench(tmp_path)
    async with again.run():
        assert again.session.name == "newer"
        assert "You said: newer" in again.screen_text


async def test_a_torn_file_is_reported_and_the_rest_is_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
    path = next((tmp_path / "sessions").glob("*.jsonl"))
    path.write_bytes(path.read_bytes() + b'{"chatkv":"mess')
    again = Bench(tmp_path)
    async with again.run():
        assert len(again.texts()) == 2
        assert any("line" in line for line in again.said)


async def test_going_back_to_a_session_finds_it_as_it_was_scrolled(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "\n\n".join(f"line {n}" for n in range(60)))
    async with bench.run():
        await bench.ask("long")
        view = bench.app.main.chat.view
        assert view is not None
        view.focus()
        await bench.press("pageup", "pageup")
        place = view.scroll_offset.y
        await bench.press("ctrl+n", "alt+1")
        assert bench.app.main.chat.view is view
        assert view.scroll_offset.y == place


async def test_more_sessions_than_are_kept_mounted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        for n in range(9):
            await bench.ask(f"session {n}")
            await bench.press("ctrl+n")
        assert len(bench.app.main.query("ConversationView")) <= 6
        await bench.press("alt+1")
        assert "You said: session 0" in bench.screen_text


async def test_a_system_prompt_is_kept_shared_with_new_sessions_and_sent(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        bench.app.action_system()
        await bench.settle()
        await bench.press(*"Be brief.", "enter")
        assert "system Be brief." in bench.screen_text
        await bench.ask("one")
        await bench.press("ctrl+n")
        assert "system Be brief." in bench.screen_text
        await bench.ask("two")
        assert [r.prompt[0].text for r in bench.engine.requests] == ["Be brief.", "Be brief."]
        bench.app.action_system()
        await bench.settle()
        await bench.press("ctrl+u", "enter")
        assert "system Be brief." not in bench.screen_text
    conversations, _ = SessionStore(tmp_path / "sessions").load_all()
    assert [c.system for c in conversations] == ["Be brief.", None]


async def test_many_faulty_files_are_told_in_few_words(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    for n in range(9):
        (folder / f"{n}.jsonl").write_text("not a session\n")
    bench = Bench(tmp_path)
    async with bench.run():
        assert len(bench.said) <= 4
        assert any("more faults" in line for line in bench.said)
        await bench.ask("still works")
        assert len(bench.texts()) == 2


async def test_an_example_is_opened_as_a_copy_of_ones_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("ctrl+p")
        bench.app.screen.query_one(Input).value = "open an example session watch a split"
        await bench.pilot.pause(0.3)
        await bench.press("down", "enter")
        assert bench.session.name == "Lesson: watch a split"
        assert any("ctrl+r" in line for line in bench.said)
        assert len(bench.on_disk()) == 1
        await bench.press("ctrl+r")
        bench.engine.finish_all()
        await bench.settle()
        assert [role for role, _ in bench.on_disk()[0]] == ["user", "assistant"]
        first = bench.session
        await bench.app.open_example(bench.app.book.examples[-1])
        await bench.settle()
        assert bench.session is not first
        assert [len(path) for path in bench.on_disk()] == [2, 1]


async def test_an_example_that_cannot_be_copied_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file where the folder should be")
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.app.open_example(bench.app.book.examples[0])
        await bench.settle()
        assert len(bench.app.book.sessions) == 1
        assert any("can't make a session" in line for line in bench.said)


async def test_what_is_typed_while_a_session_is_being_drawn_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        chat = bench.app.main.chat
        show = chat.show

        async def slow(session: Session) -> None:
            bench.app.main.prompt.insert("typed at once")
            await show(session)

        chat.show = slow  # type: ignore[method-assign]
        await bench.press("ctrl+n")
        assert bench.session.name == "new chat"
        assert bench.app.main.prompt.text == "typed at once"


async def test_what_was_typed_and_not_sent_is_there_the_next_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.press("escape", "e", "end", *"!?")
        await bench.press("ctrl+n")
        bench.app.main.prompt.load("[/half] a\x1b]52;c;aGk=\x07 question")
        await bench.press("ctrl+q")
    bench = Bench(tmp_path)
    async with bench.run():
        assert [s.draft for s in bench.app.book.sessions] == ["one!?", "[/half] a]52;c;aGk= question"]
        assert bench.app.main.prompt.text == "[/half] a]52;c;aGk= question"
        await bench.press("alt+1")
        await bench.press("enter")  # an edit is one still
        bench.engine.finish_all()
        await bench.settle()
        assert [text for role, text in bench.texts() if role == "user"] == ["one!?"]
        assert len(bench.session.conversation.children(None)) == 2
        await bench.press("alt+2", "ctrl+a", "backspace")
        bench.app.main.prompt.load("  ")
        await bench.press("ctrl+q")
    bench = Bench(tmp_path)
    async with bench.run():
        assert [s.draft for s in bench.app.book.sessions] == ["", ""]
