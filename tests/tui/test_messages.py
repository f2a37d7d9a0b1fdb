"""A message on the screen: what the mouse selects, links, wide code, other colours."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.content import Content
from textual.events import MouseScrollRight
from textual.geometry import Offset
from textual.selection import Selection

from chatkv.chat.store import SessionStore
from chatkv.tui.chat.fence import Fence
from chatkv.tui.chat.messages import AnswerView
from tests.tui.helpers import Bench

LONG = "word " * 40
ANSWER = f"""{LONG.strip()}

- one
- [two](https://example.org/there)

```python
print("{"x" * 90}")
```
"""


def view_of(bench: Bench) -> AnswerView:
    assert bench.app.main.chat.view is not None
    return bench.app.main.chat.view.query(AnswerView).last()


async def test_the_mouse_selects_what_it_is_drawn_over_without_the_breaks(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: ANSWER)
    async with bench.run() as pilot:
        await bench.ask("go")
        view = view_of(bench)
        await pilot.mouse_down(view, offset=(8 + 5, 0))
        await pilot.hover(view, offset=(8 + 4, 1))
        await pilot.mouse_up(view, offset=(8 + 4, 1))
        text = bench.app.main.get_selected_text()
        assert text is not None
        assert text.startswith("word word ")
        assert "\n" not in text
        assert LONG.startswith("word " + text)
        before = bench.app.export_screenshot()
        bench.app.main.clear_selection()
        await pilot.pause()
        assert bench.app.export_screenshot() != before, "it is seen"


async def test_twice_selects_a_block_and_three_times_the_message(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: ANSWER)
    async with bench.run() as pilot:
        await bench.ask("go")
        view = view_of(bench)
        list_row = next(p.row for p in view._placed if p.laid.lines[0] == "• one")
        await pilot.click(view, offset=(20, list_row), times=2)
        assert bench.app.main.get_selected_text() == "• one\n• two"
        await pilot.click(view, offset=(20, list_row), times=3)
        text = bench.app.main.get_selected_text()
        assert text is not None
        assert text.startswith("word")
        assert "• two" in text
        assert "tok/s" in text


async def test_what_is_selected_stays_with_its_text(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: ANSWER)
    async with bench.run() as pilot:
        await bench.ask("go")
        view = view_of(bench)
        bench.app.main.selections = {view: Selection(Offset(5, 0), Offset(2, 1))}
        await pilot.pause()
        before = bench.app.main.get_selected_text()
        await pilot.resize_terminal(80, 24)
        await bench.settle()
        assert bench.app.main.get_selected_text() == before == LONG.strip()[5:] + "\n• "


async def test_a_link_is_copied(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: ANSWER)
    async with bench.run() as pilot:
        await bench.ask("go")
        view = view_of(bench)
        row = next(p.row for p in view._placed if p.laid.lines[0] == "• one") + 1
        await pilot.click(view, offset=(8 + 3, row))
        assert bench.app.clipboard == "https://example.org/there"
        assert bench.said[-1] == "copied https://example.org/there"
        assert bench.app.main.chat.view is not None
        assert bench.app.main.chat.view.selected is None, "the message is not selected by it"


async def test_the_wheel_moves_code_that_is_too_wide(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: ANSWER)
    async with bench.run() as pilot:
        await bench.ask("go")
        view = view_of(bench)
        row = next(p.row for p in view._placed if p.laid.lines[0].startswith("print"))
        assert 'print("xx' in bench.screen_text
        assert '")' not in bench.screen_text
        for _ in range(20):
            view.post_message(MouseScrollRight(view, 20, row, 0, 0, 0, False, False, False))
        await pilot.pause()
        assert 'print("xx' not in bench.screen_text
        assert '")' in bench.screen_text


async def test_keys_move_code_that_is_too_wide_and_its_edge_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: ANSWER)
    async with bench.run():
        await bench.ask("go")
        await bench.ask("again")
        row = next(line for line in bench.screen_text.split("\n") if 'print("xx' in line)
        assert "x›" in row
        await bench.press("escape", "l")
        assert "‹" in bench.screen_text
        assert 'print("xx' not in bench.screen_text, "that of both answers"
        await bench.press(*["l"] * 20)
        assert '")' in bench.screen_text
        assert "›" not in bench.screen_text.replace("│", "")
        await bench.press(*["h"] * 20)
        assert bench.screen_text.count('print("xx') == 2
        # Of the selected message alone.
        await bench.press("K", "l")
        assert bench.screen_text.count('print("xx') == 1
        await bench.press("h", "K", "l")
        assert bench.screen_text.count('print("xx') == 0, "a question has none: all in sight"


async def test_nothing_is_drawn_anew_that_has_not_changed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: ANSWER)
    async with bench.run() as pilot:
        await bench.ask("go")
        view = view_of(bench)
        strips = [strip for placed in view._placed for strip in placed.strips]
        assert None not in strips
        view.refresh()
        await pilot.pause()
        assert all(
            was is now for was, now in zip(strips, (s for p in view._placed for s in p.strips), strict=True)
        )
        bench.app.theme = "chatkv-light"
        await pilot.pause()
        assert not set(map(id, strips)) & {id(s) for p in view._placed for s in p.strips}


@pytest.mark.parametrize("theme", ["chatkv-dark", "chatkv-light", "chatkv-terminal"])
async def test_code_is_highlighted_once_for_the_theme_that_there_is(
    tmp_path: Path, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create()
    for number in range(3):
        store.append(conversation, conversation.append("user", "question"))
        store.append(conversation, conversation.append("assistant", f"```py\nx = {number}\n```"))
    read: list[object] = []

    def counted(fence: Fence, code: str, lexer: object) -> tuple[Content, bool]:
        read.append((code, fence._theme))
        return Content(code), True

    monkeypatch.setattr(Fence, "_highlight", counted)
    bench = Bench(tmp_path, theme=theme)
    async with bench.run():
        assert len(read) == 3
        bench.app.theme = "chatkv-paper" if theme == "chatkv-terminal" else "chatkv-terminal"
        await bench.settle()
        assert len(set(read)) == len(read) == 6


async def test_a_kept_answer_without_its_models_name_is_headed_alike_before_and_after_loading(
    tmp_path: Path,
) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create()
    for role, text in (("user", "question"), ("assistant", "answer")):
        store.append(conversation, conversation.append(role, text))
    bench = Bench(tmp_path)
    async with bench.run(ready=False):
        assert "model  answer" in bench.screen_text
        bench.engine.ready()
        await bench.settle()
        assert "model  answer" not in bench.screen_text
        assert "smol   answer" in bench.screen_text


async def test_that_there_is_more_below_is_said_as_soon_as_it_is_out_of_sight(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "line\n\n" * 40)
    async with bench.run():
        await bench.ask("question")
        chat = bench.app.main.chat
        assert "context" in str(chat.border_subtitle)
        steps = (("escape home", "more below"), ("end", "context"), ("up up up", "more below"))
        for keys, words in steps:
            await bench.pilot.press(*keys.split())
            await bench.pilot.pause()
            assert words in str(chat.border_subtitle)
