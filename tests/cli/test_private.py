"""After a chat, a film, a saved screen and exports under an open umask: all that was said is its owner's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal


@pytest.fixture(params=[0o000, 0o022])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def wide(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): oct(path.stat().st_mode & 0o777)
        for path in (folder, *folder.rglob("*"))
        if path.stat().st_mode & 0o077
    }


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("own", [True, False], ids=["the data folder", "--sessions"])
def test_nothing_of_a_chat_can_be_read_by_others(own: bool, tmp_path: Path) -> None:
    sessions, films = tmp_path / "data" / "sessions", tmp_path / "films"
    films.mkdir(mode=0o755)
    films.chmod(0o755)
    options = [] if own else ["--sessions", str(tmp_path / "mine")]
    if not own:
        sessions = tmp_path / "mine"
        sessions.mkdir()
        sessions.chmod(0o755)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "model.safetensors").write_text("")
    (tmp_path / "data" / "sessions").mkdir(parents=True, exist_ok=True)
    (tmp_path / "data" / "sessions" / ".x.jsonl.chatkv-abcdefgh.part").touch()
    with Terminal(
        tmp_path, *options, "--model", str(tmp_path / "model"), "--record-screen", str(films / "film.svg")
    ) as terminal:
        terminal.until("tokenizer.json", 120)  # no model: what is typed is kept as a draft
        terminal.type("something that is typed")
        terminal.until("typed", 60)
        terminal.type("\x11")  # ctrl+q
        terminal.over(120)
    (film,) = films.iterdir()
    assert film.stat().st_mode & 0o777 == 0o600
    assert films.stat().st_mode & 0o777 == 0o755
    assert list(sessions.glob("*.jsonl"))
    assert [p for p in sessions.rglob("*") if p.is_file() and p.stat().st_mode & 0o077] == []
    assert wide(tmp_path / "data") == {}
    assert sessions.stat().st_mode & 0o777 == (0o700 if own else 0o755)
    assert list((tmp_path / "data" / "sessions").glob(".*.part")) == []
