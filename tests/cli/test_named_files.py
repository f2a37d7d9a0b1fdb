"""Whatever a file is that somebody names: one line, at once, and nothing is read without end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chatkv.chat.presets import load_presets
from chatkv.chat.store import SessionStore
from chatkv.cli.completion import themes
from chatkv.cli.outcome import invoke
from chatkv.errors import UsageError
from chatkv.model.catalog import resolve
from chatkv.model.config import DecoderConfig
from chatkv.model.errors import ModelError
from chatkv.tui.chat.files import FileRefusedError, read_text_file
from chatkv.tui.recording.recorder import check_target
from chatkv.tui.remembered import Remembered
from chatkv.tui.themes import load_themes

KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to(path.parent / "nowhere"),
    "huge": lambda path: path.touch() or os.truncate(path, 1 << 40),
}


@pytest.fixture(autouse=True)
def at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What waits is ended."""

    def late(*_: object) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr("chatkv.files.NO_WRITER_S", 0.05)
    monkeypatch.setenv("CHATKV_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path / "config"))
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def made(kind: str, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    KINDS[kind](path)
    return path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", ["bench trace", "sessions import", "export", "run --model"])
def test_commands(command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(kind, tmp_path / ("it.gguf" if "model" in command else "it"))
    if command == "run --model" and kind == "huge":
        pytest.skip("only its first bytes are read")
    assert invoke([*command.split(), str(path)]) in (1, 2)
    out, error = capsys.readouterr()
    assert error.count("\n") == 1
    assert "Errno" not in error
    assert out == ""
    assert str(path) in error


@pytest.mark.parametrize("command", ["bench trace", "sessions import", "export"])
def test_a_pipe_with_a_writer_is_read_to_its_end(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = {
        "bench trace": '{"session": "a", "turn": 0, "prompt": [1, 2, 3], "output": [4]}\n' * 3,
        "sessions import": '{"messages": [{"role": "user", "content": "hello"}]}\n',
        "export": "{}",
    }[command]
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,))
    writer.start()
    code = invoke([*command.split(), str(tmp_path / "pipe")])
    writer.join()
    out, error = capsys.readouterr()
    if command == "export":
        assert "is not a snapshot" in error
    else:
        assert code == 0, error
        assert ("requests" if "trace" in command else "imported 1 session") in out


@pytest.mark.parametrize("kind", KINDS)
def test_settings(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(kind, tmp_path / "config" / "config.toml")
    assert invoke(["config"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "config.toml: " in error


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_found_in_folders(kind: str, tmp_path: Path) -> None:
    path = made(kind, tmp_path / "config" / "themes" / "it.toml")
    assert [problem.path for problem in load_themes()[1]] == [path]
    assert "it" not in themes("")
    _, faults = load_presets(made(kind, tmp_path / "presets" / "it.toml").parent)
    assert len(faults) == 1
    path = made(kind, tmp_path / "data" / "sessions" / "20260101T000000Z-it.jsonl")
    loaded, problems = SessionStore(path.parent).load_all()
    assert (loaded, len(problems)) == ([], 1)
    assert Remembered(made(kind, tmp_path / "data" / "screen.json")).get("x", "y") == "y"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_put_into_the_prompt(kind: str, tmp_path: Path) -> None:
    with pytest.raises(FileRefusedError, match=r"it (is|has) "):
        read_text_file(made(kind, tmp_path / "it"))


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_film_takes_nobody_s_place(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        check_target(made(kind, tmp_path / "it.svg"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"]
)
def test_a_file_of_a_model(kind: str, name: str, tmp_path: Path) -> None:
    for each in ("config.json", "tokenizer.json", "model.safetensors"):
        if each != name:
            (tmp_path / each).write_text("{}")
    path = made(kind, tmp_path / name)
    if kind in ("pipe", "device"):
        with pytest.raises(ModelError, match=r"is not a file: it is a device, a pipe or a socket"):
            resolve(str(tmp_path), lambda *told: None)
    if name == "config.json":
        with pytest.raises(ModelError) as caught:
            DecoderConfig.load(tmp_path)
        assert str(path) in str(caught.value)


def test_a_start_up_file_that_is_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    os.mkfifo(tmp_path / ".bashrc")
    assert invoke(["--install-completion", "bash"]) == 1
    assert "is not a file" in capsys.readouterr().err
