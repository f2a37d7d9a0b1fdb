from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from chatkv.model.errors import ModelError
from chatkv.model.store import MANIFEST, build_once, is_complete, models_dir, require_space


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHATKV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def quiet(stage: str, fraction: float | None) -> None:
    pass


def build(folder: Path) -> dict[str, Any]:
    (folder / "weights").write_bytes(b"w" * 100)
    return {"source": "here"}


def leftovers() -> list[str]:
    return sorted(p.name for p in models_dir().iterdir() if ".tmp-" in p.name)


def test_it_is_built_once_and_whole() -> None:
    built: list[Path] = []

    def counting(folder: Path) -> dict[str, Any]:
        built.append(folder)
        return build(folder)

    folder = build_once("m", counting, quiet)
    assert folder == models_dir() / "m"
    assert is_complete(folder)
    assert build_once("m", counting, quiet) == folder
    assert len(built) == 1
    assert leftovers() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ModelError("no"), RuntimeError("x")])
def test_an_interrupted_build_leaves_nothing(error: type[BaseException] | BaseException) -> None:
    def failing(folder: Path) -> dict[str, Any]:
        build(folder)
        raise error

    with pytest.raises((KeyboardInterrupt, ModelError, RuntimeError)):
        build_once("m", failing, quiet)
    assert leftovers() == []
    assert not (models_dir() / "m").exists()
    assert is_complete(build_once("m", build, quiet))


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest"])
def test_a_damaged_folder_is_built_anew(damage: str) -> None:
    folder = build_once("m", build, quiet)
    if damage == "cut":
        (folder / "weights").write_bytes(b"w")
    elif damage == "gone":
        (folder / "weights").unlink()
    else:
        (folder / MANIFEST).write_text("{")
    assert not is_complete(folder)
    assert is_complete(build_once("m", build, quiet))


def script(cache: Path, body: str) -> subprocess.Popen[str]:
    code = "from pathlib import Path\nimport sys, time\nfrom chatkv.model.store import build_once\n"
    return subprocess.Popen(
        [sys.executable, "-c", code + textwrap.dedent(body)],
        env=os.environ | {"CHATKV_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_build_is_cleaned_up_by_the_next(cache: Path) -> None:
    process = script(
        cache,
        """
        def build(folder):
            (folder / "weights").write_bytes(b"half")
            print("building", flush=True)
            time.sleep(600)
        build_once("m", build, lambda stage, fraction: None)
        """,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "building\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(leftovers()) == 1
    assert not is_complete(models_dir() / "m")
    assert (build_once("m", build, quiet) / "weights").read_bytes() == b"w" * 100
    assert leftovers() == []


def test_two_processes_build_it_once(cache: Path) -> None:
    body = """
        def build(folder):
            print("building", flush=True)
            time.sleep(0.5)
            (folder / "weights").write_bytes(b"w" * 100)
            return {}
        print(build_once("m", build, lambda stage, fraction: None))
        """
    processes = [script(cache, body) for _ in range(3)]
    outputs = [process.communicate(timeout=60)[0].split() for process in processes]
    assert sorted(len(out) for out in outputs) == [1, 1, 2]
    assert {out[-1] for out in outputs} == {str(models_dir() / "m")}


def test_a_waiting_process_says_so(cache: Path) -> None:
    process = script(
        cache,
        """
        def build(folder):
            print("building", flush=True)
            time.sleep(1)
            return {}
        build_once("m", build, lambda stage, fraction: None)
        """,
    )
    assert process.stdout is not None
    process.stdout.readline()
    stages: list[str] = []
    build_once("m", build, lambda stage, fraction: stages.append(stage))
    process.wait()
    assert any("waiting for another chatkv" in stage for stage in stages)


def test_an_unwritable_cache(cache: Path) -> None:
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file where the folder should be")
    with pytest.raises(ModelError, match=r"model cache .*set CHATKV_CACHE") as caught:
        build_once("m", build, quiet)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o500)
    with pytest.raises(ModelError, match="can't be written"):
        build_once("m", build, quiet)


def test_a_full_disk_is_said_before_and_during(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"MiB left but the model needs .*CHATKV_CACHE"):
        require_space(tmp_path, 1 << 60)

    def full(folder: Path) -> dict[str, Any]:
        with open("/dev/full", "w") as device:
            device.write("x")
        return {}

    with pytest.raises(ModelError, match="disk is full"):
        build_once("m", full, quiet)
    assert leftovers() == []
