"""A person's themes while the program runs: new, changed, faulty, gone; and the choice is kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from chatkv.tui.remembered import Remembered
from chatkv.tui.theme_folder import Changes, ThemeFolder
from chatkv.tui.themed import LOOK_S
from chatkv.tui.themes import DEFAULT_THEME, TERMINAL_THEME
from tests.tui.helpers import Bench

RED = 'primary = "#ff0000"\n'
BLUE = 'primary = "#0000ff"\n'


def names(changes: Changes | None) -> list[str]:
    return [theme.name for theme in changes.themes] if changes else []


def polled(folder: ThemeFolder) -> Changes | None:
    """What the second look takes; the first only sees that something is going on."""
    assert folder.poll() is None
    return folder.poll()


def test_new_changed_and_gone(tmp_path: Path) -> None:
    path = tmp_path / "themes"
    folder = ThemeFolder(path, {"nord"})
    assert folder.take() == Changes()
    assert polled(folder) is None
    path.mkdir()
    (path / "a.toml").write_text(RED)
    (path / "b.txt").write_text("=")
    assert names(polled(folder)) == ["a"]
    assert polled(folder) is None
    (path / "a.toml").write_text(BLUE + "dark = false\n")
    changes = polled(folder)
    assert names(changes) == ["a"]
    assert changes is not None
    assert not changes.themes[0].dark
    (path / "a.toml").rename(path / "c.toml")
    changes = polled(folder)
    assert changes is not None
    assert (names(changes), changes.gone) == (["c"], ["a"])
    shutil.rmtree(path)
    changes = polled(folder)
    assert changes is not None
    assert changes.gone == ["c"]


def test_a_file_being_written_is_waited_for(tmp_path: Path) -> None:
    folder = ThemeFolder(tmp_path, ())
    folder.take()
    for length in range(1, len(RED), 6):
        (tmp_path / "a.toml").write_text(RED[:length])
        assert folder.poll() is None
    (tmp_path / "a.toml").write_text(RED)
    assert names(polled(folder)) == ["a"]


def test_a_fault_is_told_once_and_the_last_good_theme_stays(tmp_path: Path) -> None:
    folder = ThemeFolder(tmp_path, ())
    (tmp_path / "a.toml").write_text(RED)
    folder.take()
    (tmp_path / "a.toml").write_text("primary = ")
    changes = polled(folder)
    assert changes is not None
    assert len(changes.problems) == 1
    assert (changes.themes, changes.gone) == ([], [])
    (tmp_path / "b.toml").write_text(BLUE)
    changes = polled(folder)
    assert changes is not None
    assert (names(changes), changes.problems) == (["b"], [])
    (tmp_path / "a.toml").write_text(BLUE)
    assert names(polled(folder)) == ["a"]


def test_a_name_is_free_again_once_its_file_is_gone(tmp_path: Path) -> None:
    folder = ThemeFolder(tmp_path, {"nord"})
    (tmp_path / "a.toml").write_text(RED + 'name = "mine"')
    (tmp_path / "b.toml").write_text(BLUE + 'name = "mine"')
    (tmp_path / "nord.toml").write_text(RED)
    changes = folder.take()
    assert names(changes) == ["mine"]
    assert [problem.path.name for problem in changes.problems] == ["b.toml", "nord.toml"]
    (tmp_path / "a.toml").unlink()
    taken = polled(folder)
    assert taken is not None
    assert (names(taken), taken.gone, taken.problems) == (["mine"], [], [])


def test_what_is_no_file_is_a_fault_and_a_mended_link_is_taken(tmp_path: Path) -> None:
    folder = ThemeFolder(tmp_path, ())
    (tmp_path / "a.toml").mkdir()
    (tmp_path / "b.toml").symlink_to(tmp_path / "there")
    assert [problem.path.name for problem in folder.take().problems] == ["a.toml", "b.toml"]
    (tmp_path / "there").write_text(RED)
    assert names(polled(folder)) == ["b"]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path / "config"))
    folder = tmp_path / "config" / "themes"
    folder.mkdir(parents=True)
    return folder


def primary(bench: Bench) -> str:
    """What the style sheets see; Textual rounds."""
    return "red" if bench.app.theme_variables["primary"].startswith("#F") else "blue"


async def test_the_theme_worn_follows_its_file(tmp_path: Path, own: Path) -> None:
    (own / "mine.toml").write_text(RED)
    bench = Bench(tmp_path, theme="mine")
    async with bench.run() as pilot:

        async def look() -> None:
            bench.app.look_at_themes()
            bench.app.look_at_themes()
            await pilot.pause()

        assert primary(bench) == "red"
        (own / "mine.toml").write_text(BLUE + "dark = false\n")
        await look()
        assert primary(bench) == "blue"
        assert bench.app.has_class("-light-mode")
        (own / "mine.toml").write_text('primary = "bl\x1b[31mue"')
        await look()
        assert primary(bench) == "blue"
        assert bench.said[-1].startswith("theme mine.toml: is not TOML")
        (own / "mine.toml").unlink()
        (own / "[red]other[.toml").write_text(RED + 'name = "other"')
        await look()
        assert primary(bench) == "blue"
        assert bench.said[-2:] == [
            "the theme mine is gone; its colours stay until another is chosen",
            "a new theme: other",
        ]
        bench.app.theme = "other"
        await pilot.pause()
        assert primary(bench) == "red"


async def test_it_is_followed_by_itself(tmp_path: Path, own: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run() as pilot:
        (own / "mine.toml").write_text(RED)
        for _ in range(100):
            await pilot.pause(LOOK_S / 5)
            if "mine" in bench.app.available_themes:
                break
        assert bench.said[-1] == "a new theme: mine"
        (own / "mine.toml").unlink()
        for _ in range(100):
            await pilot.pause(LOOK_S / 5)
            if "mine" not in bench.app.available_themes:
                break
        assert "mine" not in bench.app.available_themes


def worn(tmp_path: Path, kept: dict[str, str] | None = None, theme: str | None = None) -> Bench:
    remembered = Remembered()
    for key, value in (kept or {}).items():
        remembered.set(key, value)
    return Bench(tmp_path, theme=theme, remembered=remembered)


@pytest.fixture
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "TERM", "xterm-256color")
    monkeypatch.setitem(os.environ, "COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("colours", "own")
async def test_what_is_chosen_is_worn_the_next_time(tmp_path: Path) -> None:
    bench = worn(tmp_path)
    assert bench.app.theme == DEFAULT_THEME
    async with bench.run():
        assert bench.app.remembered.get("theme", "") == ""
        await bench.type("/theme chatkv-paper")
        assert bench.app.remembered.get("theme", "") == "chatkv-paper"
    assert worn(tmp_path, {"theme": "chatkv-paper"}).app.theme == "chatkv-paper"
    assert worn(tmp_path, {"theme": "chatkv-paper"}, "nord").app.theme == "nord"


@pytest.mark.usefixtures("colours", "own")
async def test_a_theme_that_is_gone_is_told(tmp_path: Path) -> None:
    bench = worn(tmp_path, {"theme": "gone\x1b[1m[b]"})
    async with bench.run():
        assert bench.app.theme == DEFAULT_THEME
        assert bench.said == ["the theme gone[1m[b] is not there any more"]


@pytest.mark.usefixtures("colours", "own")
@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "xterm", "COLORTERM": ""}])
def test_where_colours_are_few_the_terminal_s_own_are_worn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert worn(tmp_path, {"theme": "chatkv-paper"}).app.theme == TERMINAL_THEME
    for name, value in variables.items():  # Textual takes NO_COLOR out
        monkeypatch.setenv(name, value)
    assert worn(tmp_path, theme="nord").app.theme == "nord"
