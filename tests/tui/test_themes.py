"""Theme files: what ships is good and readable; what a person adds can't kill the app."""

from pathlib import Path

import pytest
from textual.color import Color

from chatkv.tui.themes import DEFAULT_THEME, KV_DEFAULTS, ThemeError, load_themes, read_theme, theme_names

GOOD = 'primary = "#336699"\n'


def contrast(one: str, other: str) -> float:
    """WCAG 2.2 contrast ratio of two colours."""

    def luminance(color: Color) -> float:
        parts = [u / 12.92 if u <= 0.04045 else ((u + 0.055) / 1.055) ** 2.4 for u in color.normalized]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    dark, light = sorted((luminance(Color.parse(one)), luminance(Color.parse(other))))
    return (light + 0.05) / (dark + 0.05)


def test_the_three_shipped_themes_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path))
    themes, problems = load_themes()
    assert not problems
    assert [theme.name for theme in themes] == ["chatkv-dark", "chatkv-light", "chatkv-safe"]
    assert theme_names()[0] == DEFAULT_THEME
    assert [theme.dark for theme in themes] == [True, False, True]


def test_every_state_is_readable_on_every_background() -> None:
    for theme in load_themes()[0][:3]:
        assert set(theme.variables) == set(KV_DEFAULTS)
        for name, color in theme.variables.items():
            least = 3.0 if name == "kv-free" else 3.6
            for ground in (theme.background, theme.surface, theme.panel):
                assert ground is not None
                assert contrast(color, ground) >= least, (theme.name, name, ground)


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
        + '[variables]\nkv-new = "lime"\nborder = "red 50%"\nlink-style = "bold underline"\ntext = "auto 90%"'
    )
    assert read_theme(path).variables["kv-new"] == "lime"
    path.write_text(GOOD + '[variables]\nborder = "auto 5"')
    with pytest.raises(ThemeError, match="border"):
        read_theme(path)
