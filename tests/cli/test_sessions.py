"""``chatkv sessions export`` and ``import``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chatkv.chat.store import SessionStore
from chatkv.cli.outcome import invoke


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    store = SessionStore(tmp_path / "sessions")
    for name in ("one", "two", "two"):
        conv = store.create(name)
        store.append(conv, conv.append("user", f"hi {name}"))
    return store


def run(store: SessionStore, *arguments: str) -> int:
    return invoke(["sessions", "--sessions", str(store.folder), *arguments])


def test_export_by_name_id_and_beginning(store: SessionStore, capsys: pytest.CaptureFixture[str]) -> None:
    id = store.conversations[0].id
    for wanted in ("one", id, id[:8]):
        assert run(store, "export", wanted) == 0
        assert capsys.readouterr().out == "# one\n\n**user**\n\nhi one\n"
    output = store.folder / "x.json"
    assert run(store, "export", "one", "-o", str(output)) == 0
    assert json.loads(output.read_text())["messages"] == [{"role": "user", "content": "hi one"}]
    assert invoke(["sessions", "export", "one", "--sessions", str(store.folder), "--format", "json"]) == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["export", "three"], "there is no session 'three'"),
        (["export", ""], "there is no session ''"),
        (["export", "two"], "names 2 sessions: give an id"),
        (["import", "/no/such"], "/no/such is not there"),
        (["import", "/etc/hostname"], "neither JSON nor JSONL"),
        (["import", "/dev/zero"], "is not a file"),
    ],
)
def test_what_can_not_be_is_one_line(
    store: SessionStore, arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(store, *arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("chatkv: ")
    assert line in err
    assert err.count("\n") == 1


def test_a_list_of_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["sessions", "--sessions", str(tmp_path / "no")]) == 1
    assert capsys.readouterr().err == (
        f"chatkv: there is no folder {tmp_path / 'no'}; a chat with --sessions makes it\n"
    )


def test_import_makes_sessions(
    store: SessionStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chats.jsonl"
    chat = {
        "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}],
        "title": "t",
    }
    path.write_text(f"{json.dumps(chat)}\n{json.dumps(chat)}\n")
    assert run(store, "import", str(path)) == 0
    assert capsys.readouterr().out == "imported 2 sessions, 4 messages\n"
    found, problems = SessionStore(store.folder).load_all()
    assert problems == []
    assert [conv.name for conv in found] == ["one", "two", "two", "t", "t"]
