"""A terminal with a light background gets a light screen, and its answer is nothing that was typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color

from chatkv.paths import packaged
from chatkv.tui.themes import read_theme
from tests.cli.terminal import Terminal

pytestmark = pytest.mark.model


def test_a_light_terminal_has_a_light_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    light = Color.parse(read_theme(packaged("themes") / "chatkv-light.toml").background or "")
    with Terminal(tmp_path, "--no-save") as terminal:
        terminal.until("\x1b]11;?\x1b\\", 30)
        terminal.type("\x1b]11;rgb:fdfd/f6f6/e3e3\x1b\\")
        terminal.until(f"48;2;{light.r};{light.g};{light.b}", 30)
        assert b"fdfd" not in terminal.seen


def test_a_chosen_theme_needs_no_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    with Terminal(tmp_path, "--no-save", "--theme", "chatkv-ember") as terminal:
        terminal.until("Ask something", 30)
        assert b"\x1b]11;?" not in terminal.seen
