"""Small things that people stumble over."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from textual.command import CommandPalette

from chatkv.chat.store import SessionStore
from chatkv.tui import clipboard
from chatkv.tui.chat.pane import gauge
from chatkv.tui.dialogs.help import Help
from chatkv.tui.sessions.item import Item, short
from chatkv.tui.sessions.picker import SessionPicker
from tests.tui.helpers import Bench


async def test_f1_helps_over_whatever_is_open(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        for key, screen in (("ctrl+s", SessionPicker), ("ctrl+p", CommandPalette)):
            await bench.press(key, "f1")
            assert isinstance(bench.app.screen, Help)
            await bench.press("f1")
            assert isinstance(bench.app.screen, screen)
            await bench.press("escape")
        assert "f1 Help" in bench.screen_text
        await bench.press("f1", "f1")
        assert bench.app.screen is bench.app.main


def test_a_forks_number_is_never_cut_off() -> None:
    name = "a very long name of a session ⑂12"
    assert short(name, 18) == "a very long n… ⑂12"
    assert short("short ⑂1", 18) == "short ⑂1"
    assert short("a very long name of a session", 8) == "a very…"
    item = Item("k", 3, name, " ", False, None)
    assert "⑂12" in item.row(20).plain
    assert item.chip(8).text.endswith("… ⑂12")


async def test_a_question_left_without_an_answer_says_how_to_get_one(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create("killed")
    store.append(conversation, conversation.append("user", "q"))
    bench = Bench(tmp_path)
    async with bench.run():
        assert "no answer yet · ctrl+r has it answered" in bench.screen_text
        await bench.press("ctrl+r")
        bench.engine.step()
        await bench.settle()
        assert "no answer yet" not in bench.screen_text
        bench.engine.finish_all()
        await bench.settle()
        assert "no answer yet" not in bench.screen_text


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_faults_are_one_line_that_is_not_on_the_cache(tmp_path: Path, size: tuple[int, int]) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    for n in range(9):
        (folder / f"{n}.jsonl").write_text("junk\n")
    bench = Bench(tmp_path)
    async with bench.run(size=size, toasts=True):
        assert [s.name for s in bench.app.book.sessions] == ["new chat"]
        assert len(bench.said) == 1
        assert "0.jsonl, line 1: holds no session, left out" in bench.said[0]
        assert "8 more faults in session files; chatkv sessions lists them" in bench.said[0]
        bench.app.main.go_to("tree")
        await bench.settle()
        tree = bench.app.main.query_one("#tree").region
        toast = bench.app.main.query_one("Toast").region
        assert toast.area > 0
        assert not tree.overlaps(toast)


async def test_the_gauge_warns_near_the_limit(tmp_path: Path) -> None:
    assert gauge(None) == ""
    assert gauge((10, 100)) == "context ▰▱▱▱▱▱▱▱▱▱ 10%"
    bench = Bench(tmp_path, max_context=16)
    async with bench.run():
        await bench.ask("one")
        assert "context ▰▰▰▰▱▱▱▱▱▱ 44%" in bench.screen_text
        await bench.ask("two")
        assert "context 88% full · ctrl+o forks earlier · ctrl+n new" in bench.screen_text
        assert bench.app.main.chat.has_class("-near")


async def test_pinning_what_a_session_has_in_the_cache(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type("/pin")
        assert any("nothing of this session" in line for line in bench.said)
        bench.app.main.prompt.load("")
        await bench.ask("one two")
        await bench.type("/pin")
        assert len(bench.app.desk.feed.mirror.pinned) == 1
        assert any("tokens of this session are evicted last" in line for line in bench.said)
        await bench.type("/unpin")
        assert not bench.app.desk.feed.mirror.pinned


def test_which_clipboard_there_is(tmp_path: Path) -> None:
    for name in ("wl-copy", "xsel"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    path = str(tmp_path)
    assert clipboard.tool({"PATH": path}, "linux") is None
    assert clipboard.tool({"PATH": path, "DISPLAY": ":0"}, "linux") == ("xsel", "--input", "--clipboard")
    assert clipboard.tool({"PATH": path, "DISPLAY": ":0", "WAYLAND_DISPLAY": "w"}, "linux") == ("wl-copy",)
    assert clipboard.tool({"PATH": path}, "darwin") is None


async def test_what_is_copied_reaches_the_systems_clipboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "wl-copy"
    tool.parent.mkdir()
    tool.write_text(
        f"#!/bin/sh\ncat > {tmp_path}/copied.part && mv {tmp_path}/copied.part {tmp_path}/copied\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("WAYLAND_DISPLAY", "w")
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    bench = Bench(tmp_path, script=lambda request: "**bold**\x1b[2J")
    async with bench.run():
        await bench.ask("q")
        await bench.press("escape", "y")
        for _ in range(500):
            if (tmp_path / "copied").exists():
                break
            await asyncio.sleep(0.01)
        assert (tmp_path / "copied").read_text() == "**bold**[2J"
        assert bench.app.clipboard == "**bold**[2J"
        tool.write_text("#!/bin/sh\nexit 1\n")
        await bench.press("y")
    await clipboard.copy("x", ("/no/such/tool",))
