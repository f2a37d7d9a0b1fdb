"""Theme files: what ships is good and readable; what a person adds can't kill the app."""

from itertools import combinations
from pathlib import Path

import pytest
from rich.color import ColorSystem
from textual.color import Color
from textual.theme import Theme
from textual.widgets import OptionList

from chatkv.paths import packaged
from chatkv.tui.themes import (
    DEFAULT_THEME,
    KV_DEFAULTS,
    ThemeError,
    load_themes,
    read_theme,
    theme_names,
    variable_defaults,
)
from tests.tui.cache.host import looks_of
from tests.tui.colours import BLINDNESS, contrast, distance
from tests.tui.helpers import Bench

GOOD = 'primary = "#336699"\n'


SHIPPED = {
    "chatkv-contrast": True,
    "chatkv-dark": True,
    "chatkv-ember": True,
    "chatkv-light": False,
    "chatkv-paper": False,
    "chatkv-phosphor": True,
    "chatkv-safe": True,
    "chatkv-terminal": True,
}
"""Name → is it dark?"""
TERMINAL = "chatkv-terminal"
THEMES = {theme.name: theme for theme in load_themes([packaged("themes")])[0]}
PAINTED = [name for name in SHIPPED if name != TERMINAL]


def states(theme: Theme) -> dict[str, str]:
    return {name: theme.variables[name] for name in KV_DEFAULTS}


def grounds(theme: Theme) -> list[str]:
    return [ground for ground in (theme.background, theme.surface, theme.panel) if ground is not None]


def test_the_shipped_themes_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path))
    themes, problems = load_themes()
    assert not problems
    assert {theme.name: theme.dark for theme in themes} == SHIPPED
    assert DEFAULT_THEME in SHIPPED
    assert theme_names()[: len(SHIPPED)] == list(SHIPPED)


@pytest.mark.parametrize("name", PAINTED)
def test_every_state_is_readable(name: str) -> None:
    theme = THEMES[name]
    for state, color in states(theme).items():
        # A state also colours its node's text, except what is free.
        least = 3.0 if state == "kv-free" else 4.5
        assert contrast(color, grounds(theme)[0]) >= least, state
        for ground in grounds(theme):
            assert contrast(color, ground) >= min(least, 3.6), (state, ground)


@pytest.mark.parametrize("name", PAINTED)
def test_text_is_readable(name: str) -> None:
    theme = THEMES[name]
    wide = 7.0 if name == "chatkv-contrast" else 4.5
    for ground in grounds(theme):
        assert theme.foreground is not None
        assert contrast(theme.foreground, ground) >= max(wide, 7.0), ground
    for color in (theme.primary, theme.secondary, theme.accent, theme.warning, theme.error, theme.success):
        assert color is not None
        assert theme.background is not None
        assert contrast(color, theme.background) >= wide, color
    if name == "chatkv-contrast":
        assert all(contrast(color, "#000000") >= 7 for color in states(theme).values())


@pytest.mark.parametrize("name", PAINTED)
def test_states_are_told_apart(name: str) -> None:
    for one, other in combinations(states(THEMES[name]).items(), 2):
        assert distance(one[1], other[1]) >= 0.09, (one, other)


@pytest.mark.parametrize("blind", BLINDNESS)
def test_the_safe_theme_is_safe(blind: str) -> None:
    for one, other in combinations(states(THEMES["chatkv-safe"]).items(), 2):
        assert distance(one[1], other[1], blind) >= 0.1, (one, other)
    # That is what the other themes don't give, so the measure does measure.
    dark = states(THEMES["chatkv-dark"]).values()
    assert min(distance(a, b, blind) for a, b in combinations(dark, 2)) < 0.06


def test_the_simulation_takes_red_from_green() -> None:
    red, green = "#c04020", "#707000"
    assert distance(red, green) > 0.15
    assert distance(red, green, "deuteranopia") < 0.06
    assert distance("#ffffff", "#000000") == pytest.approx(1, abs=0.001)
    assert distance("#808080", "#808080", "tritanopia") == 0


def test_the_terminal_s_own_colours_are_used_as_they_are() -> None:
    theme = THEMES[TERMINAL]
    assert theme.ansi
    assert {getattr(theme, ground) for ground in ("background", "surface", "panel")} == {"ansi_default"}
    given = variable_defaults(theme)
    assert all(color.startswith("ansi_") for color in given.values())
    assert len({given[state] for state in KV_DEFAULTS}) == len(KV_DEFAULTS)


async def test_a_light_terminal_stays_light(tmp_path: Path) -> None:
    bench = Bench(tmp_path, theme=TERMINAL)
    async with bench.run(toasts=True):
        await bench.ask("Say `code`:\n```py\nx = 1\n```")
        bench.app.say("said")
        for keys in ([], ["escape", "K"], ["ctrl+s"], ["escape"], ["ctrl+o"], ["escape"], ["f1"]):
            await bench.press(*keys)
            assert looks_of(bench.app, "bgcolor") <= {"default"}, keys


async def test_a_list_shows_its_cursor_without_painting(tmp_path: Path) -> None:
    bench = Bench(tmp_path, theme=TERMINAL)
    async with bench.run():
        await bench.press("ctrl+n", "ctrl+s")
        rows = bench.app.screen.query_one(OptionList)
        assert any(segment.style and segment.style.reverse for segment in rows.render_line(0))
        assert not any(segment.style and segment.style.reverse for segment in rows.render_line(1))


async def test_every_theme_can_be_worn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path / "config"))
    (tmp_path / "config" / "themes").mkdir(parents=True)
    (tmp_path / "config" / "themes" / "mine.toml").write_text('primary = "ansi_red"\nansi = true')
    bench = Bench(tmp_path, theme="mine")
    async with bench.run() as pilot:
        for name in bench.app.available_themes:
            bench.app.theme = name
            await pilot.pause()
            assert bench.app.current_theme.name == name
        assert "chatkv" in bench.screen_text


@pytest.mark.parametrize("theme", [TERMINAL, "chatkv-dark", "chatkv-light", "nord"])
async def test_no_color_is_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theme: str) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bench = Bench(tmp_path, theme=theme)
    async with bench.run(toasts=True):
        await bench.ask("Say `code`:\n```py\nx = 1\n```")
        bench.app.theme = "chatkv-paper"
        await bench.press("ctrl+s")
        assert looks_of(bench.app, "color") | looks_of(bench.app, "bgcolor") <= {"default"}
        # What can't be told by colour is told otherwise.
        rows = bench.app.screen.query_one(OptionList)
        assert any(segment.style and segment.style.reverse for segment in rows.render_line(0))
        await bench.press("escape", "escape", "K")
        assert "▸" in bench.screen_text
        assert "┏━ Chat" in bench.screen_text
        await bench.press("f6")
        assert "┏━ Chat" not in bench.screen_text
        assert "┏━ Radix tree" in bench.screen_text


@pytest.mark.parametrize("name", PAINTED)
def test_with_sixteen_colours_no_state_is_lost_in_the_ground(name: str) -> None:
    theme = THEMES[name]
    for state, color in states(theme).items():
        seen, ground = (
            Color.parse(c).rich_color.downgrade(ColorSystem.STANDARD).number
            for c in (color, grounds(theme)[0])
        )
        assert seen != ground, state


def test_defaults_are_readable_on_black_and_on_white() -> None:
    for name, color in KV_DEFAULTS.items():
        assert min(contrast(color, "#121212"), contrast(color, "#ffffff")) >= 3, name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no 'primary'"),
        ("primary = ", "is not TOML"),
        ('primary = "bleu"', "'primary' is not a colour: 'bleu'"),
        ("primary = 3", "'primary' has a wrong value 3"),
        (GOOD + 'primry = "red"', "unknown key 'primry'"),
        (GOOD + "dark = 1", "'dark' has a wrong value 1"),
        (GOOD + "text_alpha = true", "'text_alpha' has a wrong value True"),
        (GOOD + "luminosity_spread = nan", "'luminosity_spread' has a wrong value nan"),
        (GOOD + 'name = "a\\u001bb"', "the name may have"),
        (GOOD + 'variables = "red"', "'variables' has a wrong value"),
        (GOOD + '[variables]\nkv-new = "gren"', "'kv-new' is not a colour: 'gren'"),
        (GOOD + '[variables]\nkv-resued = "green"', "unknown variable 'kv-resued'"),
        (GOOD + '[variables]\nblock-cursor-text-style = "wobbly"', "no style 'wobbly'"),
        (GOOD + '[variables]\nborder = "red lots"', "'border' is not a colour"),
    ],
)
def test_a_faulty_file_is_named_and_left_out(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    (tmp_path / "other.toml").write_text(GOOD)
    themes, problems = load_themes([tmp_path])
    assert [theme.name for theme in themes] == ["other"]
    assert len(problems) == 1
    line = str(problems[0])
    assert line.startswith("theme mine.toml: ")
    assert told in line
    assert "\x1b" not in line
    assert "\n" not in line


def test_unreadable_things_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.toml").mkdir()
    (tmp_path / "b.toml").write_bytes(b'name = "\xff"')
    (tmp_path / "c.toml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "read.me").write_text("not a theme")
    themes, problems = load_themes([tmp_path, tmp_path / "missing", tmp_path / "b.toml"])
    assert not themes
    assert [p.path.name for p in problems] == ["a.toml", "b.toml", "c.toml", "b.toml"]


def test_a_taken_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD + 'name = "mine"')
    (tmp_path / "b.toml").write_text(GOOD + 'name = "mine"')
    (tmp_path / "nord.toml").write_text(GOOD)
    themes, problems = load_themes([tmp_path])
    assert [theme.name for theme in themes] == ["mine"]
    assert ["taken" in str(problem) for problem in problems] == [True, True]


def test_a_persons_theme_may_set_textuals_variables_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        GOOD
        + '[variables]\nkv-new = "lime"\nframe = "red 20%"\nborder = "red 50%"'
        + '\nlink-style = "bold underline"\ntext = "auto 90%"'
    )
    assert read_theme(path).variables["kv-new"] == "lime"
    path.write_text(GOOD + '[variables]\nborder = "auto 5"')
    with pytest.raises(ThemeError, match="border"):
        read_theme(path)
