"""``chatkv sessions``, ``themes``, ``models`` and ``fetch`` print what there is."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import chatkv.model.catalog as catalog
from chatkv.chat.store import SessionStore
from chatkv.cli.outcome import invoke


def test_sessions_are_listed_as_plain_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("[bold]not markup[/bold]\x1b[31m :smile:")
    store.append(conv, conv.append("user", "x"))
    (tmp_path / "torn.jsonl").write_text('{"chatkv"')
    assert invoke(["sessions", "--sessions", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert f"{conv.id}  [bold]not markup[/bold][31m :smile:         1  " in out
    assert "\x1b" not in out
    assert err.splitlines() == [
        "torn.jsonl, line 1: holds no session, left out: cut off while it was written, skipped"
    ]


def test_no_sessions_and_examples(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHATKV_DATA", str(tmp_path / "none"))
    assert invoke(["sessions"]) == 0
    assert "No sessions in" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()
    assert invoke(["sessions", "--examples"]) == 0
    assert "Lesson: watch a split" in capsys.readouterr().out


def test_themes_are_listed_with_the_faults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path))
    (tmp_path / "themes").mkdir()
    (tmp_path / "themes" / "bad.toml").write_text("=")
    assert invoke(["themes"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[:2] for line in out.splitlines()[1:9]] == [
        ["chatkv-contrast", "dark"],
        ["chatkv-dark", "dark"],
        ["chatkv-ember", "dark"],
        ["chatkv-light", "light"],
        ["chatkv-paper", "light"],
        ["chatkv-phosphor", "dark"],
        ["chatkv-safe", "dark"],
        ["chatkv-terminal", "terminal"],
    ]
    assert err.startswith("theme bad.toml: is not TOML")


def test_models_says_what_is_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHATKV_CACHE", str(tmp_path))
    assert invoke(["models"]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith("smollm2-135m (default)")
    assert line.split()[-1] == "no"


def test_fetch_tells_each_stage_once_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def resolve(name: str, progress: Callable[[str, float | None], None]) -> Path:
        for fraction in (0.0, 0.5, 1.0):
            progress("fetching", fraction)
        progress("checking", None)
        return tmp_path

    monkeypatch.setattr(catalog, "resolve", resolve)
    assert invoke(["fetch", "some"]) == 0
    assert capsys.readouterr() == (f"some is ready in {tmp_path}\n", "fetching ...\nchecking ...\n")


@pytest.mark.parametrize(
    ("zone", "created", "shown"),
    [
        ("Asia/Tokyo", "9999-12-31T23:59:59+00:00", "9999-12-31 23:59"),
        ("America/New_York", "0001-01-01T00:00:00+00:00", "1-01-01 00:00"),
        ("Asia/Tokyo", "2026-01-01T20:00:00+00:00", "2026-01-02 05:00"),
    ],
)
def test_a_date_at_the_end_of_time_is_listed(
    zone: str,
    created: str,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = SessionStore(tmp_path)
    store.create("a")
    (path,) = tmp_path.glob("*.jsonl")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"created": created}) + "\n")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert invoke(["sessions", "--sessions", str(tmp_path)]) == 0
    finally:
        monkeypatch.undo()
        time.tzset()
    assert capsys.readouterr().out.splitlines()[-1].endswith(shown)
