"""Panes: arrangements, tabs, focus, zoom, pause, export, help, palette, themes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.containers import VerticalScroll
from textual.widgets import Input

from chatkv.chat.store import SessionStore
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Failed, Sampling
from chatkv.tui.app import ChatkvApp, run
from chatkv.tui.cache.states import Look
from chatkv.tui.feed import FAINT_S
from chatkv.tui.layout import PANES, Arrangement, arrangement
from tests.tui.helpers import Bench


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((39, 24), Arrangement.TINY),
        ((80, 11), Arrangement.TINY),
        ((40, 12), Arrangement.ONE),
        ((80, 24), Arrangement.ONE),
        ((99, 60), Arrangement.ONE),
        ((100, 24), Arrangement.TWO),
        ((120, 36), Arrangement.TWO),
        ((200, 39), Arrangement.TWO),
        ((200, 50), Arrangement.THREE),
    ],
)
def test_the_arrangement_follows_the_size(size: tuple[int, int], expected: Arrangement) -> None:
    assert arrangement(*size) is expected


def seen(bench: Bench) -> set[str]:
    """Ids of the panes that are on the screen."""
    main = bench.app.main
    ids = [*PANES, "sessions", "prompt", "tabs", "legend", "status"]
    return {id for id in ids if main.query_one(f"#{id}").region.area > 0}


async def test_what_each_size_shows(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)) as pilot:
        await bench.ask("hello")
        assert seen(bench) == {"chat", "prompt", "tabs", "legend", "status"}
        await pilot.resize_terminal(120, 36)
        await bench.settle()
        assert seen(bench) == {"chat", "tree", "blocks", "metrics", "prompt", "legend", "status"}
        await pilot.resize_terminal(200, 50)
        await bench.settle()
        assert seen(bench) == {*PANES, "sessions", "prompt", "legend", "status"}
        await pilot.resize_terminal(30, 8)
        await bench.settle()
        assert not seen(bench)
        assert "30x8" in bench.screen_text
        await pilot.resize_terminal(60, 15)
        await bench.settle()
        assert seen(bench) == {"chat", "prompt"}
        assert "You said: hello" in bench.screen_text


async def test_a_resize_storm_while_an_answer_streams(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "words " * 60)
    async with bench.run() as pilot:
        await bench.type("go")
        for size in ((200, 50), (20, 5), (80, 24), (1, 1), (300, 90), (40, 12), (100, 30), (120, 36)):
            await pilot.resize_terminal(*size)
            bench.engine.step(3)
        await bench.settle()
        bench.engine.finish_all()
        await bench.settle()
        assert bench.texts()[1] == ("assistant", "words " * 60)
        assert "words words" in bench.screen_text


async def test_what_the_engine_could_not_have_is_said_when_it_is_ready(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(ready=False):
        bench.engine.ready("attention by torch: [b]why[/b]", "computing on the CPU")
        await bench.settle()
        assert bench.said == ["attention by torch: [b]why[/b]", "computing on the CPU"]


async def test_a_moment_too_small_leaves_the_focus_where_it_was(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        for way in ((), ("escape", "f6")):
            await bench.press(*way)
            before = bench.app.focused
            assert before is not None
            for size in ((30, 8), (20, 5), (120, 36)):
                await pilot.resize_terminal(*size)
                await bench.settle()
            assert bench.app.focused is before


async def test_the_tree_has_room_at_every_height_that_shows_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        await bench.ask("hello")
        for height in (18, 20, 23, 24, 26, 29, 30, 36):
            await pilot.resize_terminal(110, height)
            await bench.settle()
            assert bench.app.main.query_one("#tree").size.height >= 3, height


async def test_tabs_of_the_narrow_screen(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(size=(80, 24)) as pilot:
        await bench.ask("hello")
        order = [*list(PANES)[2:], "chat"]
        for pane in order:
            await bench.press("f6")
            assert seen(bench) & set(PANES) == {pane}
        assert bench.app.focused is bench.app.main.prompt
        await bench.press("shift+f6")
        assert seen(bench) & set(PANES) == {"events"}
        await pilot.click("#tabs", offset=(10, 0))
        await bench.settle()
        assert seen(bench) & set(PANES) == {"tree"}
        await bench.press("escape")
        assert seen(bench) & set(PANES) == {"chat"}


async def test_f6_walks_through_what_is_seen(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        visited = []
        for _ in range(5):
            await bench.press("f6")
            focused = bench.app.focused
            assert focused is not None
            visited.append(focused.id or type(focused).__name__)
        assert visited == ["ConversationView", "tree", "blocks", "metrics", "prompt"]
        await bench.press("shift+f6")
        assert bench.app.focused is bench.app.main.query_one("#metrics")
        await pilot.resize_terminal(200, 50)


async def test_zoom_fills_the_body_and_goes_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("f6", "f6", "z")
        assert seen(bench) & set(PANES) == {"tree"}
        await bench.press("z")
        assert seen(bench) & set(PANES) == {"chat", "tree", "blocks", "metrics"}
        await bench.press("z", "i")
        await bench.press("escape", "enter")
        assert seen(bench) & set(PANES) == {"chat", "tree", "blocks", "metrics"}
        assert bench.app.focused is bench.app.main.prompt


async def test_letters_type_in_the_prompt_and_act_in_panes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press(*"zx?i", "space", *"y")
        assert bench.app.main.prompt.text == "zx?i y"
        assert not bench.app.desk.feed.frozen
        await bench.press("escape", "question_mark")
        assert "esc closes" in bench.screen_text
        assert "ctrl+n" in bench.screen_text


async def test_enter_on_a_node_inspects_it_at_every_size(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        await bench.ask("hello")
        bench.app.main.query_one("#tree").focus()
        await bench.press("G", "enter")
        assert "node" in seen(bench)
        assert "blocks" not in seen(bench)
        await bench.press("escape")
        assert seen(bench) >= {"blocks", "metrics"}
        assert "node" not in seen(bench)
        await pilot.resize_terminal(80, 24)
        await bench.settle()
        await bench.press("f6")
        await bench.press("shift+f6", "G", "enter")
        assert seen(bench) & set(PANES) == {"node"}


async def test_pausing_holds_the_picture_and_loses_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c d e f", steps=2)
        await bench.press("f6", "space")
        feed = bench.app.desk.feed
        seq = feed.mirror.seq
        bench.engine.finish_all()
        await bench.settle()
        assert feed.mirror.seq == seq
        assert "PAUSED" in bench.screen_text
        assert bench.texts()[1] == ("assistant", "You said: a b c d e f")
        assert "You said: a b c d e f" in bench.screen_text
        await bench.press("space")
        assert feed.mirror.seq == feed.latest > seq
        assert feed.mirror.gaps == []
        assert feed.mirror.check() == []
        assert "LIVE" in bench.screen_text


async def test_export_writes_both_files_and_names_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        await bench.press("escape", "x")
        files = sorted((tmp_path / "snapshots").iterdir())
        assert [f.suffix for f in files] == [".json", ".svg"]
        data = json.loads(files[0].read_text())
        assert data["schema"] == "chatkv.snapshot"
        assert data["model"] == "SmolLM2-135M"
        assert files[1].read_text().startswith("<svg")
        assert any(str(files[1]) in line for line in bench.said)


async def test_an_export_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "snapshots").write_text("in the way")
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        await bench.press("escape", "x")
        assert any("can't export" in line for line in bench.said)


@pytest.mark.parametrize("key", ["escape", "f1", "q"])
async def test_help_opens_and_closes(tmp_path: Path, key: str) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("f1")
        assert "new line" in bench.screen_text
        bench.app.screen.query_one(VerticalScroll).scroll_end(animate=False)
        await bench.settle()
        for look in Look:
            assert f"{look.glyph} {look.word}" in bench.screen_text
        await bench.press(key)
        assert bench.app.screen is bench.app.main


async def test_the_palette_has_the_commands(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("hello")
        await bench.press("ctrl+p")
        assert "Fork this session" in bench.screen_text
        bench.app.screen.query_one(Input).value = "clear the"
        await bench.pilot.pause(0.3)
        await bench.press("down", "enter")
        await bench.settle()
        assert any("cache cleared" in line for line in bench.said)
        assert len(bench.app.desk.feed.mirror.nodes) == 1


async def test_before_the_engine_is_ready_there_is_no_cache_to_clear(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run(ready=False):
        bench.app.action_clear_cache()
        await bench.settle()
        assert bench.said[-1] == "nothing to clear yet: the model is still loading"
        bench.engine.fail("no such file")
        await bench.settle()
        bench.app.action_clear_cache()
        await bench.settle()
        assert bench.said[-1] == "there is no cache to clear: the model has failed"


async def test_a_ghost_turns_faint_and_goes_while_nothing_happens(tmp_path: Path) -> None:
    bench = Bench(tmp_path, num_blocks=4, block_size=4)
    now = 1_700_000_000.0

    def ghosts() -> set[bool]:
        """Whether each ghost in the tree is faint."""
        tree = bench.app.main.cache.tree_view
        strips = [tree.render_line(y) for y in range(1, 8)]
        marks = [s for strip in strips for s in strip if s.text == "x "]
        return {bool(s.style and s.style.dim) for s in marks}

    bench.app.main.clock = lambda: now
    async with bench.run(size=(160, 50)):
        await bench.ask("a b c")
        await bench.press("ctrl+n")
        await bench.ask("d e f")
        assert ghosts() == {False}
        now += FAINT_S + 1
        await bench.settle()
        assert ghosts() == {True}
        now += FAINT_S
        await bench.settle()
        assert ghosts() == set()


def test_why_the_engine_failed_is_told_after_the_screen_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def quit_after_failure(app: ChatkvApp) -> None:
        app.desk.hear(Failed("can't load it:\nno such file"))
        app._return_code = 1

    monkeypatch.setattr(ChatkvApp, "run", quit_after_failure)
    assert run(EngineConfig(), Sampling(), SessionStore(tmp_path)) == 1
    assert capsys.readouterr() == ("", "chatkv: can't load it: no such file\n")


async def test_the_cache_is_not_cleared_under_a_running_answer(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c", steps=2)
        bench.app.action_clear_cache()
        await bench.settle()
        assert any("while answers run" in line for line in bench.said)


async def test_stop_all(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("a b c", steps=2)
        await bench.press("ctrl+n")
        await bench.ask("d e f", steps=2)
        bench.app.action_stop_all()
        bench.engine.step()
        await bench.settle()
        assert bench.app.book.running == []
        assert any("stopping 2" in line for line in bench.said)


async def test_quit_works_under_a_dialog(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.press("ctrl+s")
        await bench.pilot.press("ctrl+q")
        await bench.pilot.pause()
        assert bench.app.return_code == 0


@pytest.mark.parametrize("theme", ["chatkv-dark", "chatkv-light", "chatkv-safe", "nord", "textual-light"])
async def test_every_theme_draws(tmp_path: Path, theme: str) -> None:
    bench = Bench(tmp_path, theme=theme)
    async with bench.run():
        await bench.ask("hello")
        assert "You said: hello" in bench.screen_text
        assert "kv-new" in bench.app.theme_variables


async def test_a_bad_theme_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path / "config"))
    (tmp_path / "config" / "themes").mkdir(parents=True)
    (tmp_path / "config" / "themes" / "mine.toml").write_text('primary = "no colour"')
    bench = Bench(tmp_path)
    async with bench.run():
        assert any("mine.toml" in line for line in bench.said)


async def test_loading_shows_how_far_it_is(tmp_path: Path) -> None:
    from chatkv.engine.messages import Loading

    bench = Bench(tmp_path)
    async with bench.run(ready=False):
        bench.engine.listener(Loading("loading weights", 0.5))
        await bench.settle()
        assert "loading weights ━━━━━━━━━━━━────────────  50%" in bench.screen_text.replace(" 50%", "  50%")
