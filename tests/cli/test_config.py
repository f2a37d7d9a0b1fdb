"""The settings file: defaults of options, told where they are wrong; ``chatkv config``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chatkv.cli.app  # noqa: F401
from chatkv.cli.config import write_example
from chatkv.cli.outcome import invoke
from chatkv.cli.settings import NOT_KEPT, Settings, known, load
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Sampling
from chatkv.tui.keys.actions import ACTIONS

Write = Callable[[str], Path]


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Write:
    """Writes the settings file."""
    monkeypatch.setenv("CHATKV_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("CHATKV_CACHE", str(tmp_path / "cache"))

    def wrote(text: str) -> Path:
        path = tmp_path / "config" / "config.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return wrote


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, write: Write) -> list[tuple[Any, ...]]:
    """What the chat was opened with: engine, sampling, folder, theme, keys."""
    app = importlib.import_module("chatkv.tui.app")
    calls: list[tuple[Any, ...]] = []

    def run(config: Any, sampling: Any, store: Any, theme: Any, *, keymap: Any, **_: Any) -> int:
        calls.append((config, sampling, store.folder, theme, keymap))
        return 0

    monkeypatch.setattr(app, "run", run)
    monkeypatch.setattr(sys.modules["chatkv.cli.run"], "is_terminal", lambda: True)
    return calls


FULL = """
[run]
model = "a/b"
sessions = "chats"
theme = "chatkv-light"
dtype = "fp32"
block-size = 4
num_blocks = 64
cache = "hash"
strict_blocks = true
threads = 3
verify = true
[sampling]
temperature = 1
top_k = 5
stop = "END"
seed = 0
[keys]
new = "f5"
chat.copy = ["Y", "f7"]
"""


def test_the_file_gives_defaults_and_the_command_line_goes_before_them(
    opened: list[tuple[Any, ...]], write: Write, tmp_path: Path
) -> None:
    write(FULL)
    assert invoke(["run"]) == 0
    config = EngineConfig(
        model="a/b",
        dtype="fp32",
        block_size=4,
        num_blocks=64,
        cache="hash",
        strict=True,
        threads=3,
        verify=True,
    )
    sampling = Sampling(temperature=1.0, top_k=5, stop=("END",), seed=0)
    keys = {"new": ("f5",), "chat.copy": ("Y", "f7")}
    folder = tmp_path / "config" / "chats"
    assert opened == [(config, sampling, folder, "chatkv-light", keys)]
    line = (
        f"run --model c/d --sessions {tmp_path}/s --theme chatkv-dark --dtype auto --block-size 16 "
        "--kv-memory 1MiB --cache radix --no-strict-blocks --threads 1 --no-verify "
        "--temperature 0 --top-k 0 --stop X --stop Y --seed 7"
    )
    assert invoke(line.split()) == 0
    config = EngineConfig(model="c/d", kv_memory=1 << 20, threads=1)
    assert opened[1] == (config, Sampling(stop=("X", "Y"), seed=7), tmp_path / "s", "chatkv-dark", keys)


def test_without_a_file_all_is_as_built_in(opened: list[tuple[Any, ...]], tmp_path: Path) -> None:
    assert invoke(["run"]) == 0
    assert opened == [(EngineConfig(), Sampling(), tmp_path / "data" / "sessions", None, {})]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[run]\nblok_size = 4", "[run] blok_size: there is no such setting; did you mean 'block_size'?"),
        ("[run]\ntemperature = 1", "[run] temperature: belongs under [sampling]"),
        ("[sampling]\nmodel = 'x'", "[sampling] model: belongs under [run]"),
        ("theme = 'x'", "theme belongs under [run]"),
        ("[runn]\n", "'runn' is not known; there are [run], [sampling], [keys]; did you mean 'run'?"),
        ("keys = 4", "[keys] is a table"),
        ("[run]\nblock_size = 'many'", "[run] block_size: takes a whole number, not 'many'"),
        ("[run]\nblock_size = true", "takes a whole number, not True"),
        ("[run]\nblock_size = 4.0", "takes a whole number"),
        ("[run]\nblock_size = 0", "[run] block_size: must be a whole number from 1 to 256, got 0"),
        ("[run]\nblock_size = 999", "[run] block_size: must be a whole number from 1 to 256, got 999"),
        ("[run]\nstrict_blocks = 1", "takes true or false"),
        ("[run]\nmodel = 1", "takes text in quotes"),
        ("[run]\nmodel = {a = 1}", "takes text in quotes"),
        ("[run]\nmodel = ''", "[run] model: can't be ''"),
        ("[run]\nsessions = ' '", "[run] sessions: can't be ' '"),
        ('[run]\nsessions = "a\\u0000b"', "[run] sessions: can't be"),
        (
            "[run]\ntheme = 'nosuch'",
            "[run] theme: 'nosuch' is not known; there are chatkv-contrast, chatkv-d",
        ),
        ("[run]\nsessions = 'config.toml'", "[run] sessions: takes a folder, and"),
        ("[run]\nweb_host = 'http://x'", "[run] web_host: takes a host's name or address alone"),
        ("[run]\nmax_running = 99999999999", "[run] max_running: must be a whole number from 1 to 16777216"),
        ("[run]\nxyzzy = 4", "[run] xyzzy: there is no such setting; chatkv config lists them"),
        ('[sampling]\nstop = ["\\u0000"]', "[sampling] stop: can't be"),
        ("[run]\nnum-blocks = 4\nnum_blocks = 8", "[run] num_blocks: is there twice, with - and with _"),
        ("[run]\nkv_memory = '12parsecs'", "[run] kv_memory: '12parsecs' is not a size"),
        ("[run]\ncache = 'lots'", "[run] cache: must be one of radix, hash, none"),
        ("[run]\nkv_memory = 1048576\nnum_blocks = 4", "[run] give kv_memory or num_blocks, not both"),
        ("[run]\ncache = 'hash'\neviction = 'lfu'", "[run] cache hash evicts"),
        ("[sampling]\ntemperature = nan", "[sampling] temperature: must be"),
        ("[sampling]\nstop = [1]", "[sampling] stop: takes a list of texts"),
        ("[keys]\nnwe = 'f5'", "[keys] nwe: there is no such action; did you mean 'new'?"),
        ("[keys]\nnew = 'ctrl+o'", "[keys] new: 'ctrl+o' is fork"),
        ("[run\n", "is not TOML:"),
        ("\udcff".encode("utf-8", "surrogateescape").decode("latin1"), "is not TOML"),
        ("[run]\nweb = true", "there is no such setting"),
        ('[run]\n"\\u001b[31mred" = 1', "there is no such setting"),
    ],
)
@pytest.mark.parametrize("command", ["run", "config"])
def test_what_is_wrong_is_one_line_with_file_and_setting(
    opened: list[tuple[Any, ...]],
    write: Write,
    command: str,
    text: str,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(text)
    assert invoke([command]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"chatkv: {path}: ")
    assert told in error
    assert error.count("\n") == 1
    assert "\x1b" not in error
    assert opened == []


def test_config_says_that_there_is_no_such_model(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("[run]\nmodel = 'nosuch'")
    assert invoke(["config"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"chatkv: {path}: [run] model: unknown model 'nosuch'; known: smollm2-135m")


def test_bytes_that_are_no_text_and_a_folder_in_its_place(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("")
    path.write_bytes(b"\xff\xfe")
    assert invoke(["run"]) == 2
    assert "is not UTF-8 text" in capsys.readouterr().err
    path.unlink()
    path.mkdir()
    assert invoke(["run"]) == 2
    assert f"{path}: is not a file: it is a folder" in capsys.readouterr().err
    path.rmdir()
    path.write_bytes(b"\xef\xbb\xbf[run]\r\nthreads = 2\r\n")
    assert load().values == {"threads": 2}


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("[run]\nmodel = 'nosuch'", "run", "model is set in"),
        ("[run]\nmodel = './nosuch.gguf'", "run", "config/nosuch"),
        ("[run]\neviction = 'lfu'", "run --cache hash", "eviction is set in"),
    ],
)
def test_what_turns_out_later_names_the_file(
    opened: list[tuple[Any, ...]],
    write: Write,
    text: str,
    line: str,
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(text)
    assert invoke(line.split()) == 2
    error = capsys.readouterr().err
    assert told in error
    assert str(path) in error
    assert error.count("\n") == 1
    assert opened == []


def test_commands_that_need_no_settings_do_without(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("[runn]")
    assert invoke(["config", "--path"]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert invoke(["sessions"]) == 0
    assert invoke(["run", "--help"]) == 0
    out, err = capsys.readouterr()
    assert "--block-size" in out
    assert "'runn' is not known" in err


def test_bench_and_fetch_take_the_model_and_the_machine(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("[run]\nmodel = 'nosuch'\nblock_size = 4\n[sampling]\ntemperature = 1\n")
    for command in (["bench"], ["bench", "queue"], ["fetch"]):
        assert invoke(command) == 2
        error = capsys.readouterr().err
        assert "'nosuch'" in error
        assert f"model is set in {path}" in error
    assert invoke(["fetch", "nosuch"]) == 2
    assert "is set in" not in capsys.readouterr().err
    write("[run]\nthreads = 3\nblock_size = 4\n[sampling]\ntemperature = 1\n")
    seen: list[EngineConfig] = []

    def stop_here(configs: dict[str, EngineConfig], workload: Any, sampling: Sampling, *_: Any) -> Any:
        seen.extend(configs.values())
        assert sampling.temperature == 0
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module("chatkv.bench.worker"), "run_in_turn", stop_here)
    assert invoke(["bench"]) == 130
    assert {(config.threads, config.block_size) for config in seen} == {(3, 16)}


def test_config_shows_where_and_what(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("[run]\nthreads = 3\n[sampling]\nstop = ['a', 'b']\n[keys]\nnew = 'f5'\nquit = []\n")
    assert invoke(["config"]) == 0
    out = capsys.readouterr().out
    for folder in ("config/config.toml", "config/themes", "config/presets", "data/sessions", "cache"):
        assert str(tmp_path / folder) in out
    rows = {tuple(line.split()) for line in out.splitlines()}
    assert ("[run]", "threads", "3", "file") in rows
    assert ("[run]", "block_size", "16", "default") in rows
    assert ("[keys]", "new", "f5", "file") in rows
    assert ("[keys]", "quit", "none", "file") in rows
    assert '["a", "b"]' in out
    assert invoke(["config", "--keys"]) == 0
    rows = {tuple(line.split()[:2]) for line in capsys.readouterr().out.splitlines()}
    assert {("new", "f5"), ("quit", "none"), ("fork", "ctrl+o"), ("pane.help", "?")} <= rows


def test_the_example_says_nothing_and_every_line_of_it_works(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["config", "--init"]) == 0
    path = tmp_path / "config" / "config.toml"
    assert capsys.readouterr().out == f"wrote {path}\n"
    assert load() == Settings(path)
    text = path.read_text()
    assert invoke(["config", "--init"]) == 1
    assert "is there already" in capsys.readouterr().err
    assert path.read_text() == text
    lines = [line for line in text.splitlines() if line.startswith("#") and line[1] != " "]
    assert len(lines) > len(known())
    for line in lines:
        path.write_text(text.replace(line, line[1:]))
        settings = load()
        assert len(settings.values) + len(settings.keys) == 1, line
    named = {line[1:].split(" ")[0] for line in lines}
    assert named >= known().keys()
    # All of them at once, but for one of the two that exclude each other.
    for line in lines:
        text = text.replace(line, "" if "kv_memory" in line else line[1:])
    path.write_text(text)
    settings = load()
    assert (len(settings.values), len(settings.keys)) == (len(known()) - 1, len(ACTIONS))


def test_an_example_is_not_written_where_it_can_not_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write_example(tmp_path / "file" / "config.toml")


def test_every_option_of_run_is_a_setting_or_asked_for_each_time() -> None:
    import inspect

    from chatkv.cli.run import run

    names = set(inspect.signature(run).parameters) - {"context"}
    assert names <= known().keys() | NOT_KEPT
