"""What is typed behind a slash."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.tui.chat.commands import COMMANDS, Call, parse
from chatkv.tui.dialogs.ask_line import AskLine
from chatkv.tui.dialogs.help import Help
from chatkv.tui.sessions.picker import SessionPicker
from tests.tui.helpers import Bench


@pytest.mark.parametrize(
    "text",
    [
        "// a comment",
        "/usr/bin is a folder",
        "/",
        " /help",
        "\n /help",
        "\nhello\n/help",
        "/2 of it",
        "hello /help",
        "/tmp/",
        "/x.y",
        "",
        "//",
    ],
)
def test_these_are_texts(text: str) -> None:
    assert parse(text) is None


def test_these_are_commands() -> None:
    assert parse("/help") == Call("help", "")
    assert parse("/Set  temperature 0.7 \n") == Call("set", "temperature 0.7")
    assert parse("\n  \n\t\n/help") == Call("help", ""), "blank lines before it are none of a text"
    assert parse("/system Be brief.\nAlways.") == Call("system", "Be brief.\nAlways.")


@pytest.mark.parametrize("text", ["// a comment", "/usr/bin is a folder", " /help"])
async def test_a_text_with_slashes_is_sent_as_it_is(tmp_path: Path, text: str) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask(text)
        assert bench.texts()[0] == ("user", text)


async def test_an_unknown_command_is_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type("/forkk now [red]")
        assert bench.engine.requests == []
        assert bench.app.main.prompt.text == "/forkk now [red]"
        assert any("there is no command /forkk: did you mean /fork" in line for line in bench.said)


async def test_settings_are_per_session_sent_shown_and_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type("/set temperature 0.7")
        await bench.type("/set seed 3")
        assert "temperature 0.7 · seed 3" in bench.screen_text
        await bench.ask("one")
        sampling = bench.engine.requests[-1].sampling
        assert (sampling.temperature, sampling.seed, sampling.max_tokens) == (0.7, 3, 512)
        await bench.type("/set temp default")
        await bench.type("/set seed")
        assert any("seed 3" in line for line in bench.said)
        await bench.press("ctrl+n")
        assert bench.session.conversation.sampling == {"seed": 3}
        await bench.type("/set default")
        await bench.ask("two")
        assert bench.engine.requests[-1].sampling.seed is None
    again = Bench(tmp_path)
    async with again.run():
        await again.press("alt+1")
        assert again.session.conversation.sampling == {"seed": 3}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("/set temperature hot", "temperature must be a number from 0 to 100, got hot"),
        ("/set heat 3", "there is no parameter heat"),
        ("/preset nope", "there is no preset nope"),
        ("/theme nope", "there is no theme nope"),
        ("/fork me", "/fork takes nothing behind it"),
        ("/clear all", "usage: /clear [cache]"),
        ("/clear", "nothing to clear"),
        ("/file", "usage: /file PATH"),
        ("/file /no/such", "/no/such is not there: there is no such file"),
        ("/rename \x1b", "name can't be empty"),
    ],
)
async def test_what_can_not_be_done_stays_in_the_prompt(tmp_path: Path, text: str, line: str) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        bench.app.main.prompt.load("")
        bench.app.main.prompt.insert(text)
        await bench.press("enter")
        assert any(line in said for said in bench.said), bench.said
        if "\x1b" not in text:
            assert bench.app.main.prompt.text == text


async def test_system_rename_and_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path / "config"))
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type("/system Be brief.\nAlways.")
        await bench.type("/rename my talk")
        await bench.type("/set top_k 5")
        await bench.type("/preset save short")
        await bench.ask("hi")
        assert bench.engine.requests[0].prompt[0].text == "Be brief.\nAlways."
        assert bench.session.name == "my talk"
        await bench.type("/preset precise")
        assert bench.session.conversation.sampling == {"temperature": 0}
        await bench.type("/system gone")
        await bench.type("/preset short")
        assert bench.session.conversation.sampling == {"top_k": 5}
        assert bench.session.conversation.system == "Be brief.\nAlways."
        await bench.type("/preset")
        assert any("precise · balanced · creative · short" in line for line in bench.said)


async def test_the_system_prompt_stays_while_an_answer_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c d", steps=1)
        await bench.type("/system other")
        assert bench.session.conversation.system is None
        assert bench.app.main.prompt.text == "/system other"


async def test_beginning_again_keeps_what_was_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.type("/clear")
        assert bench.texts() == []
        await bench.ask("two")
        assert [t.text for t in bench.engine.requests[-1].prompt] == ["two"]
        assert "2/2 ← →" in bench.screen_text
        await bench.press("escape", "left")
        assert bench.texts()[0] == ("user", "one")
    again = Bench(tmp_path)
    async with again.run():
        assert again.texts()[0] == ("user", "one")


async def test_each_command_does_what_it_says(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        for text, screen in (
            ("/help", Help),
            ("/sessions", SessionPicker),
            ("/rename", AskLine),
            ("/system", AskLine),
        ):
            await bench.type(text)
            assert isinstance(bench.app.screen, screen)
            await bench.press("escape")
        await bench.ask("hello")
        await bench.type("/copy")
        assert bench.app.clipboard == "You said: hello"
        await bench.type("/regenerate")
        bench.engine.finish_all()
        await bench.settle()
        assert "2/2" in bench.screen_text
        await bench.type("/edit")
        assert bench.app.main.prompt.text == "hello"
        await bench.press("escape")
        await bench.type("/new")
        assert len(bench.app.book.sessions) == 2
        await bench.type("/theme chatkv-light")
        assert bench.app.theme == "chatkv-light"
        await bench.type("/stop")
        await bench.type("/clear cache")
        assert any("cache cleared" in line for line in bench.said)
        await bench.press("alt+1")
        await bench.type("/delete")
        await bench.press("y")
        await bench.type("/undo")
        assert bench.session.name == "hello"
        await bench.type("/quit")
    assert bench.app.return_code == 0


async def test_commands_are_completed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)):
        await bench.press("slash")
        assert "/system" in bench.screen_text
        assert "↓ more" in bench.screen_text
        await bench.press(*"ren")
        assert "▸ /rename" in bench.screen_text
        await bench.press("tab")
        assert bench.app.main.prompt.text == "/rename "
        await bench.press(*"x y", "enter")
        assert bench.session.name == "x y"
        await bench.press(*"/set te", "enter")
        assert bench.app.main.prompt.text == "/set temperature "
        await bench.press(*"0.5", "enter")
        assert bench.session.conversation.sampling == {"temperature": 0.5}
        await bench.press(*"/pre", "tab", "down", "up", "down", "enter", "enter")
        assert bench.session.conversation.sampling == {"temperature": 0.7, "top_p": 0.9}
        await bench.press(*"/he", "escape")
        assert "▸" not in bench.screen_text
        assert bench.app.main.prompt.text == "/he"
        await bench.press("l")
        assert "▸ /help" in bench.screen_text


async def test_a_choice_can_be_clicked(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        await bench.press(*"/s")
        await pilot.click("#choices", offset=(5, 1))
        await bench.settle()
        assert bench.app.main.prompt.text == "/set "


async def test_what_comes_in_whole_opens_no_list_and_history_walks(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type("/set seed 3")
        await bench.ask("two")
        await bench.press("up", "up")
        assert bench.app.main.prompt.text == "/set seed 3"
        await bench.press("down")
        assert bench.app.main.prompt.text == "two"


def test_every_command_is_explained() -> None:
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
    for command in COMMANDS:
        assert command.what
        assert parse(f"/{command.name}") == Call(command.name, "")
        assert not (command.action and command.args)
