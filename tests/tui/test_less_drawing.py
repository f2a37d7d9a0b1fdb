"""What the screen leaves out while answers run, and that nothing is missed for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.screen import Screen
from textual.widgets import Static

from chatkv.tui.chat.messages import UserView
from chatkv.tui.main_screen import CACHE_EVERY, MainScreen
from chatkv.tui.quick_compositor import QuickCompositor
from chatkv.tui.sessions.panel import SessionPanel
from tests.tui.helpers import Bench


def counted(
    monkeypatch: pytest.MonkeyPatch, of: type, name: str, note: Callable[[], object] = lambda: None
) -> list[object]:
    """Grows by ``note()`` with every call of ``of.name``."""
    calls: list[object] = []
    call = getattr(of, name)

    def count(*args: object, **more: object) -> object:
        calls.append(note())
        return call(*args, **more)

    monkeypatch.setattr(of, name, count)
    return calls


async def test_the_cache_is_drawn_at_once_where_a_request_begins_and_seldom_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        main = bench.app.main
        main._drawings = 0
        drawn = counted(monkeypatch, MainScreen, "draw_cache")
        # All that draws here is what the test asks for.
        monkeypatch.setattr(main._pace, "due", lambda: True)
        for timer in list(main._timers):
            timer.pause()
        await bench.pilot.pause()
        drawn.clear()
        counts = []
        for _ in range(CACHE_EVERY):
            await main._draw()
            counts.append(len(drawn))
        assert counts == [0] * (CACHE_EVERY - 1) + [1]

        bench.app.desk.ask(bench.app.book.current, "hello")
        bench.engine.step()
        await main._draw()
        assert len(drawn) == 2, "it shows what is reused, and is not waited for"


async def test_another_session_comes_into_one_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        frames = counted(monkeypatch, Screen, "_refresh_layout")
        session = bench.app.book.new()
        bench.app.desk.ask(session, "two")
        bench.hold_timers()
        await bench.pilot.pause()
        frames.clear()
        await bench.app.main.show_session(session)
        assert len(frames) == 1
        assert bench.app.main.chat.view is not None
        assert bench.app.main.chat.view.query_one(UserView).region.area > 0


async def test_a_layout_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        main = bench.app.main
        line = Static("one")
        await main.chat.mount(line)
        await bench.settle()
        layouts = counted(monkeypatch, QuickCompositor, "reflow")
        line.update("one\ntwo")
        await bench.settle()
        assert line.size.height == 2
        assert len(layouts) == 1


async def test_a_list_of_sessions_that_nobody_sees_is_filled_when_there_is_room(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(120, 36)) as pilot:
        await bench.ask("one")
        panel = bench.app.main.query_one(SessionPanel)
        assert panel.option_count == 0
        await pilot.resize_terminal(200, 50)
        await bench.settle()
        assert panel.option_count == len(bench.app.book.sessions)
        assert "one" in str(panel.get_option_at_index(0).prompt)
