"""The prompt: new lines, history, pastes of any size."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual._xterm_parser import XTermParser

from chatkv.tui.alt_keys import read_alt_keys
from tests.tui.helpers import Bench


@pytest.mark.parametrize("key", ["ctrl+j", "alt+enter"])
async def test_a_new_line_does_not_send(tmp_path: Path, key: str) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("a", key, "b", "enter")
        assert bench.engine.requests[0].prompt[0].text == "a\nb"


@pytest.mark.parametrize("key", ["1", "9", "b", "enter"])
def test_alt_keys_are_read_without_the_kitty_protocol(key: str) -> None:
    read_alt_keys([f"alt+{key}"])
    parser = XTermParser()
    keys = list(parser.feed("\x1b" + key.replace("enter", "\r")))
    assert [k.key for k in keys if isinstance(k, events.Key)] == [f"alt+{key}"]


async def test_up_and_down_walk_through_what_was_sent(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        prompt = bench.app.main.prompt
        await bench.ask("first")
        await bench.ask("second\nline")
        await bench.press(*"new", "up")
        assert prompt.text == "second\nline"
        await bench.press("up")
        assert prompt.text == "second\nline"
        await bench.press("up")
        assert prompt.text == "first"
        await bench.press("up")
        assert prompt.text == "first"
        await bench.press("down")
        assert prompt.text == "second\nline"
        await bench.press("down")
        assert prompt.text == "new"


async def test_a_paste_keeps_its_lines_and_loses_control_characters(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        bench.app.main.prompt.post_message(events.Paste("one\r\ntwo\x1b]52;c;aGk=\x07\rthree\tend"))
        await bench.settle()
        await bench.press("enter")
        assert bench.engine.requests[0].prompt[0].text == "one\ntwo]52;c;aGk=\nthree\tend"


async def test_a_megabyte_is_sent_whole_and_shown_in_short(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "ok", num_blocks=70_000, block_size=16)
    big = "word " * 200_000 + "end"
    async with bench.run():
        prompt = bench.app.main.prompt
        prompt.post_message(events.Paste(big))
        await bench.settle()
        assert len(prompt.text) < 60
        assert "pasted 1,000,003 characters" in bench.screen_text
        await bench.press("home", *"see:", "enter")
        assert bench.engine.requests[0].prompt[0].text == "see:" + big
        assert "996,007 more characters" in bench.screen_text
        bench.engine.finish_all()
        await bench.settle()
        await bench.press("up")
        assert prompt.full_text == "see:" + big
        assert len(prompt.text) < 60


async def test_backspace_takes_a_whole_wide_character(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("你", "好", "backspace")
        assert bench.app.main.prompt.text == "你"


async def test_the_prompt_grows_with_its_text_up_to_a_limit(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        prompt = bench.app.main.prompt
        assert prompt.size.height == 1
        prompt.load("a\nb\nc")
        await bench.settle()
        assert prompt.size.height == 3
        prompt.load("\n" * 50)
        await bench.settle()
        assert prompt.size.height == 8


async def test_keys_that_arrive_together_take_effect_in_order(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        prompt = bench.app.main.prompt
        keys = [*"abc", "backspace", "d", "ctrl+j", "e", "left", "left", "X"]
        for key in keys:
            bench.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await bench.settle()
        assert prompt.text == "abdX\ne"


async def test_typing_right_after_sending_is_not_lost(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        for key in [*"one", "enter", *"two"]:
            bench.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await bench.settle()
        assert bench.engine.requests[0].prompt[0].text == "one"
        assert bench.app.main.prompt.text == "two"
        await bench.press("enter")
        assert bench.app.main.prompt.text == "two"
        assert len(bench.engine.requests) == 1


async def test_what_is_sent_goes_where_it_was_typed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("first session")
        for key in [*"mine", "enter", "ctrl+n", *"other"]:
            bench.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await bench.settle()
        bench.engine.finish_all()
        await bench.settle()
        first = bench.app.book.sessions[0]
        assert [m.text for m in first.conversation.path()][2:] == ["mine", "You said: mine"]
