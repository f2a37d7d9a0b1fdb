"""How commands end: one line and the right exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import chatkv.model.catalog as catalog
from chatkv.cli.outcome import invoke
from chatkv.model.errors import ModelError

COMMAND = [sys.executable, "-c", "from chatkv.cli import main; main()"]


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHATKV_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path / "config"))


def one_error_line(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("chatkv: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("frob", "frob"),
        ("run --frob", "--frob"),
        ("run --block-size 0", "--block-size"),
        ("run --block-size 257", "--block-size"),
        ("run --num-blocks many", "--num-blocks"),
        ("run --kv-memory 12parsecs", "--kv-memory '12parsecs' is not a size"),
        ("run --kv-memory 1g --num-blocks 4", "not both"),
        ("run --max-context 0", "--max-context"),
        ("run --dtype int3", "--dtype must be one of"),
        ("run --cache lots", "--cache must be one of"),
        ("run --temperature nan", "--temperature"),
        ("run --temperature -1", "--temperature"),
        ("run --top-p 0", "--top-p"),
        ("run --theme nosuch", "there are chatkv-contrast, chatkv-dark, chatkv-ember, chatkv-light"),
        ("run --model nosuch", "unknown model 'nosuch'"),
        ("run --model /no/such/folder", "/no/such/folder"),
        ("run --model ~nosuchuser/model", "~nosuchuser/model"),
        ("run --model nosuch.gguf", "nosuch.gguf"),
        ("run --sessions README.md", "--sessions takes a folder, and README.md is none"),
        ("run --sessions ~nosuchuser/x", "needs a terminal"),
        (f"run --sessions {'x' * 300}", "needs a terminal"),
        ("run --sessions=", "--sessions takes a path, and what is given is empty"),
        ("run --web --web-host http://localhost", "--web-host takes a host's name or address alone"),
        ("run --web --web-host localhost:80", "not 'localhost:80'"),
        ("run --web-host fe80::1%eth0", "--web-host and --web-port need --web"),
        ("run --max-running 99999999999", "--max-running"),
        ("run", "needs a terminal"),
        # What is wrong with an option is said before a file is looked at.
        ("export nosuch.json --format png", "--format must be one of svg, text, json, got 'png'"),
        ("sessions export nosuch --format txt", "--format must be one of md, json, got 'txt'"),
        ("bench --cache lru", "--cache takes radix, hash, none separated by commas, not 'lru'"),
        ("bench --cache hash,hash", "--cache names one twice"),
        ("bench --sessions 99999999999", "--sessions"),
        ("bench queue --policy fcfs,lmp", "not 'lmp'; did you mean 'lpm'?"),
        ("bench trace nosuch.jsonl --policy lmp", "--policy must be one of"),
        ("doctor --device gpu", "--device must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        ("doctor --device cpu", "say what --compile compiles"),
        ("config --path --keys", "give one of --path, --init and --keys"),
        ("fetch nosuch", "unknown model 'nosuch'"),
        ("fetch a b", "unexpected"),
    ],
)
def test_a_wrong_use_is_one_line_and_exit_2(
    arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(arguments.split()) == 2
    assert told in one_error_line(capsys)


def test_a_model_folder_without_weights_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert invoke(["run", "--model", str(tmp_path)]) in (1, 2)
    assert str(tmp_path) in one_error_line(capsys)


def test_a_theme_with_a_fault_is_told_where_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "config" / "themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('primary = "blurple"')
    assert invoke(["run", "--theme", "mine"]) == 2
    assert "theme mine.toml: 'primary' is not a colour: 'blurple'" in one_error_line(capsys)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ModelError("first\nsecond \x1b[31m"), 1, "chatkv: first second [31m\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "chatkv: /x: Permission denied\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_known_errors_have_no_traceback(
    error: BaseException,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(catalog, "resolve", fail)
    assert invoke(["fetch"]) == code
    assert capsys.readouterr() == ("", line)


def test_a_fault_of_chatkv_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(catalog, "resolve", fail)
    with pytest.raises(ZeroDivisionError):
        invoke(["fetch"])


def test_a_reader_that_goes_away_is_no_news() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        done = subprocess.run([*COMMAND, "themes"], stdout=gone, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_terminal_without_unicode_gets_question_marks() -> None:
    done = subprocess.run(
        [*COMMAND, "--help"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"run" in done.stdout


def test_an_interpreter_with_torch_is_not_taken_apart_but_nothing_is_lost() -> None:
    """Taking it apart takes more than a second after ctrl+q."""
    program = """
import atexit, sys, threading, time
from chatkv.cli import main
class Slow:
    def __del__(self): print("taken apart", flush=True)
kept = Slow()
kept.itself = kept
sys.modules["torch"] = kept
atexit.register(print, "at the end")
threading.Thread(target=lambda: (time.sleep(0.2), print("the thread")), daemon=False).start()
main()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[-1] == "at the end"
    assert sorted(line.split(" ")[0] for line in lines) == ["at", "chatkv", "the"]
    done = subprocess.run([*command, "run", "--nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("chatkv: No such option: --nothing")


def test_without_the_script_python_runs_the_package() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chatkv", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("chatkv ")


def test_version_and_help_load_nothing_heavy() -> None:
    probe = (
        "import sys\nfrom chatkv.cli.outcome import invoke\n"
        "assert invoke(sys.argv[1:]) == 0\n"
        "print(*sorted({'torch', 'textual', 'transformers', 'numpy'} & set(sys.modules)), file=sys.stderr)"
    )
    for option in ("--version", "--help", "run --help"):
        done = subprocess.run(
            [sys.executable, "-c", probe, *option.split()], capture_output=True, text=True, check=True
        )
        assert "chatkv" in done.stdout
        assert done.stderr.strip() == ""
