"""The app's side of ``chatkv run --web``, with Textual as it is."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from chatkv.tui.app import ChatkvApp
from chatkv.tui.keys.current import for_browsers
from chatkv.web.process import AppProcess
from tests.tui.helpers import Bench

SMALL = str(Path(__file__).with_name("small_app.py"))
ROOT = str(Path(__file__).parents[2])


def plain(drawn: str) -> str:
    """Without colours and positions."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", drawn)


class Terminal:
    """Reads what the app draws, without drawing it."""

    def __init__(self, process: AppProcess) -> None:
        self.process = process
        self._packets = process.packets()
        self.told: list[dict[str, object]] = []

    async def until(self, text: str) -> str:
        """All that is drawn until ``text`` is in it."""
        drawn = ""
        async with asyncio.timeout(20):
            async for kind, payload in self._packets:
                assert kind in (b"D", b"M")
                if kind == b"M":
                    self.told.append(json.loads(payload))
                    if {"type": text} == self.told[-1]:
                        return drawn
                drawn += payload.decode() if kind == b"D" else ""
                if text in plain(drawn):
                    return drawn
        raise AssertionError(f"the app ended before {text!r}")


@asynccontextmanager
async def running(end: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Terminal]:
    monkeypatch.setenv("PYTHONPATH", ROOT)
    process = await AppProcess.start([sys.executable, SMALL, str(end)], 60, 10)
    try:
        yield Terminal(process)
    finally:
        process.signal(signal.SIGKILL)
        await process.wait()


async def test_keys_arrive_and_who_comes_later_sees_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path / "end", monkeypatch) as terminal:
        await terminal.until("the bottom")
        await terminal.process.send("hé")
        await terminal.until(r"<h\xe9>")
        for size in ((60, 10), (60, 10), (40, 8)):  # the same size too is drawn in full
            await terminal.process.tell("attach", width=size[0], height=size[1])
            await terminal.until("attached")
            drawn = await terminal.until("the bottom")
            for mode in ("1049", "1003", "1006", "2004"):
                assert f"\x1b[?{mode}h" in drawn
            assert "the top" in plain(drawn)
            assert r"<h\xe9>" in plain(drawn)


async def test_a_paste_is_one_whatever_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path / "end", monkeypatch) as terminal:
        await terminal.until("the bottom")
        await terminal.process.send("\x1b[200~a\x1b[Ab\x1b[201~")
        await terminal.until(r"<a\x1b[Ab>")


@pytest.mark.parametrize("how", ["quit", "end of input", "signal"])
async def test_it_ends_as_with_ctrl_q(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = tmp_path / "end"
    async with running(end, monkeypatch) as terminal:
        await terminal.until("the bottom")
        await terminal.process.send("a")
        await terminal.until("<a>")
        if how == "quit":
            await terminal.process.tell("quit")
        elif how == "signal":
            terminal.process.signal(signal.SIGTERM)
        else:
            stdin = terminal.process._process.stdin
            assert stdin is not None
            stdin.close()
        await terminal.until("exit")
        async with asyncio.timeout(10):
            assert await terminal.process.wait() == 0
    assert end.read_text() == "quit with 'a'"


def test_a_key_that_browsers_keep_is_not_the_only_one() -> None:
    own = {"new": ("ctrl+n",), "rename": ("f11",), "fork": ("ctrl+t",), "search": ("alt+t",)}
    assert for_browsers({**own, "picker.sort": ()}) == {
        "new": ("alt+n", "ctrl+n"),
        "rename": ("alt+f11", "f11"),
        "fork": ("ctrl+t",),  # alt+t is taken
        "search": ("alt+t",),
        "picker.sort": (),
        "quit": ("alt+q", "ctrl+q"),
    }


async def test_what_a_browser_keeps_has_other_keys_and_the_help_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for in_browser in (False, True):
        monkeypatch.setattr(ChatkvApp, "is_web", in_browser)
        keymap = for_browsers({"rename": ("f9",)} if in_browser else {})
        assert set(keymap) == {"new", "picker.sort", "quit", *(["rename"] if in_browser else [])}
        bench = Bench(tmp_path / str(in_browser), keymap=keymap if in_browser else None)
        async with bench.run((100, 140)):
            assert ("alt+n New" if in_browser else "^n New") in bench.screen_text
            await bench.press("x", "alt+n")
            assert len(bench.app.book.sessions) == 2
            await bench.press("f1")
            assert ("In a browser" in bench.screen_text) == in_browser
            assert ("alt+n, ctrl+n" if in_browser else "ctrl+n, alt+n") in bench.screen_text
