"""Who chose no theme gets one that goes with the terminal's background; its answers type nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.tui.background import Answers, is_light
from tests.tui.helpers import Bench

WHITE, BLACK = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\", "\x1b]11;rgb:00/00/00\x07"


@pytest.mark.parametrize(
    ("colour", "light"),
    [
        ("rgb:ffff/ffff/ffff", True),
        ("rgb:f/f/f", True),
        ("rgba:FD/F6/E3/FF", True),
        ("rgb:2828/2c2c/3434", False),
        ("rgb:00/2b/36", False),
        ("#ffffff", None),
        ("rgb:ffff/ffff", None),
        ("rgb:fffff/0/0", None),
        ("", None),
    ],
)
def test_is_it_light(colour: str, light: bool | None) -> None:
    assert is_light(colour) is light


def test_answers_are_taken_out_wherever_they_come() -> None:
    answers = Answers()
    assert answers.without("hi \x1b[A\x1b]x") == "hi \x1b[A\x1b]x"
    assert answers.light is None
    assert answers.without(f"a{WHITE}b{BLACK}c") == "abc"
    assert answers.light is False
    for cut in range(5, len(WHITE)):
        answers = Answers()
        typed = answers.without("q" + WHITE[:cut]) + answers.without(WHITE[cut:] + "z")
        assert (typed, answers.light) == ("qz", True), cut
    # What begins like one and is none is not held back for ever.
    answers = Answers()
    assert len(answers.without("\x1b]11;" + "x" * 100)) == 105


async def test_the_default_theme_is_light_on_a_light_background_and_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    bench = Bench(tmp_path, theme=None)
    async with bench.run():
        app = bench.app
        assert (app.theme, app.goes_by_background) == ("chatkv-dark", True)
        app.see_background(True)
        assert app.theme == "chatkv-light"
        assert app.remembered.get("theme", "") == ""
        app.see_background(False)
        assert app.theme == "chatkv-dark"
        assert app.remembered.get("theme", "") == ""
        app.theme = "chatkv-ember"
        await bench.settle()
        assert app.remembered.get("theme", "") == "chatkv-ember"
        app.see_background(True)
        assert app.theme == "chatkv-ember"


async def test_a_chosen_theme_stays(tmp_path: Path) -> None:
    bench = Bench(tmp_path, theme="chatkv-dark")
    async with bench.run():
        assert not bench.app.goes_by_background
        bench.app.see_background(True)
        assert bench.app.theme == "chatkv-dark"
