"""Keys on a message chosen in the chat, and conversations longer than the window."""

from __future__ import annotations

import itertools
from pathlib import Path

from chatkv.chat.store import SessionStore
from chatkv.tui.chat.code import code_blocks
from tests.tui.helpers import Bench

CODE = "Two:\n\n```py\na = 1\n```\n\n- in a list\n\n  ```sh\n  ls\n  ```\n"


async def test_any_message_can_be_chosen_and_copied(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        await bench.ask("one")
        await bench.ask("two")
        await bench.press("escape", "K", "K", "K")
        assert "▸smol" in bench.screen_text
        await bench.press("y")
        assert bench.app.clipboard == "You said: one"
        await bench.press("shift+up", "shift+up", "y")
        assert bench.app.clipboard == "one"
        await bench.press("J", "y")
        assert bench.app.clipboard == "You said: one"
        await bench.press("escape", "y")
        assert "▸smol" not in bench.screen_text
        assert bench.app.clipboard == "You said: two"
        view = bench.app.main.chat.view
        assert view is not None
        await pilot.click(view.query("UserView").first(), offset=(12, 0))
        await bench.press("y")
        assert bench.app.clipboard == "one"


async def test_code_blocks_are_copied_one_by_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: CODE)
    async with bench.run():
        await bench.press("escape", "c")
        assert any("no code block" in line for line in bench.said)
        await bench.press("i")
        await bench.ask("go")
        await bench.press("escape", "c")
        assert bench.app.clipboard == "a = 1"
        await bench.press("c")
        assert bench.app.clipboard == "ls"
        assert any("code block 2 of 2, 1 line · c again" in line for line in bench.said)
        await bench.press("c")
        assert bench.app.clipboard == "a = 1"


def test_code_blocks() -> None:
    assert code_blocks("none `here`") == []
    assert code_blocks("~~~\nopen\n\nend") == ["open\n\nend"]
    assert code_blocks("x\n\n    indented\n    more\n") == ["indented\nmore"]


async def test_an_earlier_question_is_edited_and_both_branches_stay(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.ask("two")
        await bench.press("escape", "K", "K", "K", "K", "e")
        assert bench.app.main.prompt.text == "one"
        await bench.ask("uno")
        assert [text for role, text in bench.texts() if role == "user"] == ["uno"]
        assert "2/2 ← →" in bench.screen_text
        await bench.press("escape", "left")
        assert [text for role, text in bench.texts() if role == "user"] == ["one", "two"]
        await bench.press("K", "K", "K", "K", "right")
        assert [text for role, text in bench.texts() if role == "user"] == ["uno"]
        assert "▸you" in bench.screen_text


async def test_an_edit_that_gets_no_answer_brings_the_old_branch_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.ask("two")
        await bench.press("escape", "K", "K", "K", "K", "e")
        await bench.type("uno")
        bench.engine.refuse("too long")
        await bench.settle()
        assert [text for role, text in bench.texts() if role == "user"] == ["one", "two"]
        assert bench.app.main.prompt.text == "uno"


async def test_an_earlier_answer_is_made_again(tmp_path: Path) -> None:
    answers = iter(["a1", "a2", "b1"])
    bench = Bench(tmp_path, script=lambda request: next(answers))
    async with bench.run():
        await bench.ask("one")
        await bench.ask("two")
        await bench.press("escape", "K", "K", "K", "ctrl+r")
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts() == [("user", "one"), ("assistant", "b1")]
        await bench.press("left")
        assert [text for _, text in bench.texts()] == ["one", "a1", "two", "a2"]


async def test_an_earlier_answer_made_again_and_stopped_leaves_all_as_it_was(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.ask("two")
        before = bench.texts()
        await bench.press("escape", "K", "K", "K", "ctrl+r", "escape")
        bench.engine.step()
        await bench.settle()
        assert bench.texts() == before
        assert bench.app.main.prompt.text == ""


async def test_one_version_has_no_other(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.press("escape", "left")
        assert any("one version" in line for line in bench.said)


async def click_on(bench: Bench, sign: str, row_with: str) -> None:
    rows = bench.screen_text.splitlines()
    y = next(y for y, row in enumerate(rows) if row_with in row)
    await bench.pilot.click(offset=(rows[y].index(sign, rows[y].index(row_with)), y))
    await bench.settle()


async def test_a_click_on_an_arrow_shows_that_version_and_moves_nothing(tmp_path: Path) -> None:
    count = itertools.count()
    bench = Bench(tmp_path, script=lambda request: f"answer {next(count)}")
    async with bench.run():
        await bench.ask("one")
        await bench.press("ctrl+r")
        bench.engine.finish_all()
        await bench.settle()
        texts = bench.texts()
        await click_on(bench, "←", "2/2 ← →")
        assert "1/2 ← →" in bench.screen_text
        assert bench.texts() != texts
        assert bench.app.main.chat.view.selected is None
        await click_on(bench, "→", "1/2 ← →")
        assert bench.texts() == texts
        await bench.press("e")
        await bench.ask("other")
        assert bench.texts()[0] == ("user", "other")
        await click_on(bench, "←", "2/2 ← →")
        assert bench.texts()[0] == ("user", "one")


async def test_a_click_on_the_mark_of_more_sessions_goes_on_to_them(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    for n in range(30):
        store.create(f"session {n}")
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("alt+1")
        await bench.pilot.click(offset=(bench.screen_text.splitlines()[0].index("›"), 0))
        await bench.settle()
        further = bench.session.name
        assert further not in ("session 0", "session 1")
        first_row = bench.screen_text.splitlines()[0]
        assert "‹" in first_row
        await bench.pilot.click(offset=(first_row.index("‹"), 0))
        await bench.settle()
        assert bench.session.name != further


def long_session(folder: Path, count: int) -> None:
    store = SessionStore(folder / "sessions")
    conversation = store.create("long")
    for n in range(count):
        store.append(conversation, conversation.append("user" if n % 2 == 0 else "assistant", f"message {n}"))


async def test_however_far_one_goes_only_a_window_is_mounted(tmp_path: Path) -> None:
    long_session(tmp_path, 140)
    bench = Bench(tmp_path)
    async with bench.run():
        view = bench.app.main.chat.view
        assert view is not None
        view.focus()
        for _ in range(20):
            await bench.press("g")
            assert len(view.query("MessageView")) <= 24 * 3 + 4
            if "message 0" in bench.screen_text:
                break
        assert "message 0" in bench.screen_text
        assert "earlier messages" not in bench.screen_text
        await bench.press("G")
        assert "message 139" in bench.screen_text
        assert len(view.query("UserView")) <= 24


async def test_while_an_answer_comes_no_more_are_mounted_either(tmp_path: Path) -> None:
    long_session(tmp_path, 140)
    bench = Bench(tmp_path)
    async with bench.run():
        view = bench.app.main.chat.view
        assert view is not None
        await bench.ask("a b c d e f", steps=2)
        view.focus()
        for _ in range(20):
            await bench.press("g")
            bench.engine.step()
            assert len(view.query("MessageView")) <= 24 * 3 + 4
            if view._first == 0:
                break
        assert view._first == 0
        assert "later messages" in str(view._later.content)
        await bench.press("G")
        assert "You said: a" in bench.screen_text  # as far as it has come
        bench.engine.finish_all()
        await bench.settle()
        assert "You said: a b c d e f" in bench.screen_text
        assert len(view.query("AnswerView")) == len({v.message_id for v in view.query("AnswerView")})
        assert len(view.query("MessageView")) <= 28


async def test_who_reads_far_up_for_hours_has_no_more_mounted_below(tmp_path: Path) -> None:
    long_session(tmp_path, 30)
    bench = Bench(tmp_path)
    async with bench.run():
        view = bench.app.main.chat.view
        assert view is not None
        view.anchor(False)
        view.scroll_home(animate=False)
        conversation = bench.session.conversation
        for n in range(90):
            conversation.append("user", f"more {n}")
        await bench.settle()
        assert len(view.query("MessageView")) <= 24 * 3 + 4
        assert view.scroll_offset.y == 0
        assert "later messages" in str(view._later.content)
        await bench.press("escape", "G")
        assert "more 89" in bench.screen_text
        assert len(view.query("MessageView")) <= 28


async def test_a_message_far_up_is_revealed_and_asking_goes_to_the_end(tmp_path: Path) -> None:
    long_session(tmp_path, 220)
    bench = Bench(tmp_path)
    async with bench.run():
        view = bench.app.main.chat.view
        assert view is not None
        await view.reveal(bench.session.conversation.path()[100].id)
        await bench.settle()
        assert "message 100" in bench.screen_text
        assert len(view.query("MessageView")) <= 30
        view.focus()
        for _ in range(5):
            await bench.press("J")
        assert "message 105" in bench.screen_text
        await bench.press("i")
        await bench.ask("newest")
        assert "You said: newest" in bench.screen_text
        assert view.selected is None
