"""``chatkv run`` hands the chat exactly what was asked for."""

import importlib
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import chatkv.cli.app  # noqa: F401
from chatkv.chat.store import SessionStore
from chatkv.cli.outcome import invoke
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Sampling


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """What the chat was opened with; the screen itself stays shut."""
    app = importlib.import_module("chatkv.tui.app")
    calls: list[tuple[Any, ...]] = []

    def run(
        config: EngineConfig, sampling: Sampling, store: SessionStore, theme: Any, *, record: Any, **_: Any
    ) -> int:
        unkept = [store.unkept] if store.unkept else []
        calls.append((config, sampling, store.folder, theme, *unkept, *([record] if record else [])))
        return 7

    monkeypatch.setattr(app, "run", run)
    monkeypatch.setattr(sys.modules["chatkv.cli.run"], "is_terminal", lambda: True)
    monkeypatch.setenv("CHATKV_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path / "config"))
    return calls


def test_defaults(opened: list[tuple[Any, ...]], tmp_path: Path) -> None:
    assert invoke(["run"]) == 7
    assert opened == [(EngineConfig(), Sampling(), tmp_path / "data" / "sessions", None)]
    assert (tmp_path / "data" / "sessions").is_dir()


def test_every_option_arrives(opened: list[tuple[Any, ...]], tmp_path: Path) -> None:
    line = (
        f"run --model a/b --sessions {tmp_path}/s --theme chatkv-light --block-size 1 --kv-memory 1MiB "
        "--max-context 9 --max-batch-tokens 8 --device cpu --dtype fp32 --cache none --strict-blocks "
        "--no-cuda-graphs "
        "--threads 2 --temperature 0.5 --top-p 0.9 --top-k 3 --max-tokens 4 --seed 0 --min-p 0.1 "
        "--repetition-penalty 1.2 --presence-penalty 0.3 --frequency-penalty -0.4 "
        "--stop END --stop . --verify"
    )
    assert invoke(line.split()) == 7
    config = EngineConfig(
        model="a/b",
        block_size=1,
        kv_memory=1 << 20,
        max_context=9,
        max_batch_tokens=8,
        device="cpu",
        dtype="fp32",
        cuda_graphs=False,
        cache="none",
        strict=True,
        threads=2,
        verify=True,
    )
    sampling = Sampling(
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        max_tokens=4,
        seed=0,
        min_p=0.1,
        repetition_penalty=1.2,
        presence_penalty=0.3,
        frequency_penalty=-0.4,
        stop=("END", "."),
    )
    assert opened == [(config, sampling, tmp_path / "s", "chatkv-light")]


def test_the_recording_s_place_is_checked_first(
    opened: list[tuple[Any, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "film.svg"
    assert invoke(["run", "--record-screen", str(target)]) == 7
    assert opened.pop()[-1] == target
    target.write_text("<svg>mine</svg>")
    for wrong in ([str(target)], [str(tmp_path / "film.gif")], [str(tmp_path / "new.svg"), "--web"]):
        capsys.readouterr()
        assert invoke(["run", "--record-screen", *wrong]) == 2
        error = capsys.readouterr().err
        assert "--record-screen" in error
        assert error.count("\n") == 1
    assert not opened


def test_a_folder_that_can_not_be_written_is_told_before_the_screen_opens(
    opened: list[tuple[Any, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert invoke(["run", "--sessions", str(tmp_path / "file" / "s")]) == 1
    assert "can't keep sessions in" in capsys.readouterr().err
    assert not opened


@pytest.mark.parametrize("command", [["run"], ["bench"]])
def test_more_blocks_than_any_machine_holds_are_refused(
    opened: list[tuple[Any, ...]], command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([*command, "--num-blocks", str(10**13)]) == 2
    error = capsys.readouterr().err
    assert "--num-blocks" in error
    assert error.count("\n") == 1
    assert opened == []


@pytest.mark.parametrize("command", [["run"], ["bench"]])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--temperature", "nan"),
        ("--temperature", "-1"),
        ("--top-p", "0"),
        ("--top-k", "-1"),
        ("--min-p", "1.5"),
        ("--repetition-penalty", "0"),
        ("--presence-penalty", "inf"),
        ("--frequency-penalty", "-11"),
        ("--stop", ""),
    ],
)
def test_sampling_that_can_not_work_is_one_line(
    opened: list[tuple[Any, ...]],
    command: list[str],
    option: str,
    value: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert invoke([*command, option, value]) == 2
    error = capsys.readouterr().err
    assert option in error
    assert error.count("\n") == 1
    assert opened == []


@pytest.fixture
def served(opened: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was served to browsers; there is no terminal."""
    serve = importlib.import_module("chatkv.web.serve")
    calls: list[tuple[Any, ...]] = []

    def record(*arguments: Any) -> int:
        calls.append(arguments)
        return 0

    monkeypatch.setattr(serve, "serve", record)
    monkeypatch.setattr(sys.modules["chatkv.cli.run"], "is_terminal", lambda: False)
    monkeypatch.setattr(sys, "orig_argv", ["/python", "-I", "/bin/chatkv", "run", "--web", "--stop", "a; b"])
    return calls


def test_web_runs_this_very_command_for_this_machine_alone(
    opened: list[tuple[Any, ...]], served: list[tuple[Any, ...]]
) -> None:
    command = [sys.executable, "-P", "-I", "/bin/chatkv", "run", "--web", "--stop", "a; b"]
    assert invoke(["run", "--web"]) == 0
    assert invoke(["run", "--web", "--web-host", "0.0.0.0", "--web-port", "80"]) == 0
    assert served == [(command, "127.0.0.1", 0), (command, "0.0.0.0", 80)]
    assert opened == []


@pytest.mark.parametrize(
    "line", ["--web-port 80", "--web-host ::1", "--web --web-port 65536", "--web --theme none-such"]
)
def test_web_options_that_can_not_work_are_one_line(
    opened: list[tuple[Any, ...]],
    served: list[tuple[Any, ...]],
    line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert invoke(["run", *line.split()]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not opened
    assert not served


class Stream:
    def __init__(self, terminal: bool) -> None:
        self.isatty = lambda: terminal


@pytest.mark.parametrize(
    "driver", ["chatkv.tui.web_driver:BrowserDriver", "textual.drivers.web_driver:WebDriver"]
)
def test_the_process_that_draws_for_a_browser_needs_no_terminal_but_pipes(
    opened: list[tuple[Any, ...]],
    served: list[tuple[Any, ...]],
    driver: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEXTUAL_DRIVER", driver)
    for stream in (Stream(True), None):
        monkeypatch.setattr(sys, "stdin", stream)
        assert invoke(["run", "--web"]) == 2
        assert "unset it" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", Stream(False))
    assert invoke(["run", "--web"]) == 7
    assert len(opened) == 1
    assert served == []
    # Any other driver is no reason to draw into a pipe.
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.linux_driver:LinuxDriver")
    assert invoke(["run"]) == 2


@pytest.mark.parametrize("no_save", [True, False])
def test_a_folder_that_takes_nothing_is_chatted_over_without_keeping_anything(
    opened: list[tuple[Any, ...]], tmp_path: Path, no_save: bool
) -> None:
    if not no_save:
        (tmp_path / "data").write_text("a file where the folder should be")
    assert invoke(["run", *(["--no-save"] if no_save else [])]) == 7
    (call,) = opened
    assert ("--no-save" if no_save else "can't keep sessions in") in call[4]
    assert not (tmp_path / "data" / "sessions").exists()


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_what_holds_what_was_said_is_its_owner_s_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    from chatkv.cli.surroundings import log_to_file, tidy_folders

    monkeypatch.setenv("CHATKV_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path / "config"))
    before = os.umask(umask)
    try:
        for folder in ("sessions/deleted", "snapshots"):
            (tmp_path / "data" / folder).mkdir(parents=True)
            (tmp_path / "data" / folder / "a.jsonl").write_text("said")
        tidy_folders(tmp_path / "data" / "sessions")
        log_to_file()
        logging.getLogger("chatkv").error("a fault")
    finally:
        os.umask(before)
    wide = [p for p in (tmp_path / "data").rglob("*") if p.stat().st_mode & 0o077]
    assert wide == []
    assert (tmp_path / "data" / "chatkv.log").read_text().count("a fault") == 1
