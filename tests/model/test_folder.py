"""A folder or file that is no whole model: one line that names the cause and the remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from chatkv.model.catalog import resolve
from chatkv.model.checkpoint import load_weights
from chatkv.model.config import DecoderConfig
from chatkv.model.errors import ModelError
from chatkv.model.tokenizer import Codec
from tests.model.templates import make
from tests.model.tiny import save

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935\nsize 12345\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A whole model in ``shards`` of the folder ``m``."""
    folder = tmp_path / "m"
    folder.mkdir()
    make("qwen3", folder)
    save("llama", folder, max_shard_size="60KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    return folder


def refused(name: Path) -> str:
    with pytest.raises(ModelError) as caught:
        resolve(str(name), lambda stage, fraction: None)
    said = str(caught.value)
    assert "\n" not in said
    assert str(name) in said
    return said


def without_weights(folder: Path) -> None:
    for file in folder.glob("*.safetensors*"):
        file.unlink()


def test_a_whole_model_is_taken(model: Path) -> None:
    assert resolve(str(model), lambda stage, fraction: None) == model


def test_missing_shards(model: Path) -> None:
    shards = sorted(model.glob("*.safetensors"))
    shards[1].unlink()
    assert f"shard {shards[1].name} is missing; download the model again" in refused(model)
    shards[0].unlink()
    assert f"shard {shards[0].name} is missing, and 1 more of {len(shards)}" in refused(model)


def test_a_missing_index(model: Path) -> None:
    shards = sorted(model.glob("*.safetensors"))
    (model / "model.safetensors.index.json").unlink()
    n = len(shards)
    assert f"has {n} of {n} shards but no model.safetensors.index.json" in refused(model)
    for shard in shards[1:]:
        shard.unlink()
    assert f"has 1 of {n} shards" in refused(model)


def read(folder: Path) -> None:
    """All of a model, without memory for its weights."""
    resolve(str(folder), lambda stage, fraction: None)
    Codec.load(folder)
    load_weights(folder, DecoderConfig.load(folder), torch.bfloat16, "meta")


@pytest.mark.parametrize(
    "file", ["model.safetensors", "model-00002-of", "tokenizer.json", "config.json", ".index"]
)
def test_git_lfs_pointers(file: str, model: Path) -> None:
    read(model)
    if file == "model.safetensors":
        without_weights(model)
        (model / file).write_text(LFS)
    else:
        path = next(p for p in sorted(model.iterdir()) if file in p.name and "_config" not in p.name)
        path.write_text(LFS)
    with pytest.raises(ModelError, match="is a git-lfs pointer, not the file itself: run 'git lfs install'"):
        read(model)


def test_a_gguf_file_that_is_a_pointer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATKV_CACHE", str(tmp_path / "cache"))
    (tmp_path / "m.gguf").write_text(LFS)
    assert "is a git-lfs pointer" in refused(tmp_path / "m.gguf")


@pytest.mark.parametrize("name", ["m.gguf.part1of2", "m.gguf-split-a", "M.GGUF.001"])
def test_a_piece_of_a_gguf_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"GGUF")
    assert "looks like a piece of a GGUF file: join all" in refused(tmp_path / name)


def adapter(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base"}')
    (folder / "adapter_model.safetensors").write_bytes(b"x")


def adapter_with_config(folder: Path) -> None:
    without_weights(folder)
    (folder / "adapter_model.safetensors").write_bytes(b"x")


def one_of(*names: str, config: bool = True) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        without_weights(folder)
        if not config:
            (folder / "config.json").unlink()
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(b"x")

    return change


def deeper(folder: Path) -> None:
    inside = folder / "inner"
    inside.mkdir()
    for file in [p for p in folder.iterdir() if p.is_file()]:
        file.rename(inside / file.name)


def hub_cache(folder: Path) -> None:
    deeper(folder)
    (folder / "snapshots").mkdir()
    (folder / "inner").rename(folder / "snapshots" / "abc")
    (folder / "snapshots" / "old").mkdir()
    (folder / "snapshots" / "old" / "config.json").write_text("{}")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")


def hub_cache_without_refs(folder: Path) -> None:
    hub_cache(folder)
    (folder / "refs" / "main").unlink()
    (folder / "snapshots" / "old" / "config.json").unlink()


def without_blobs(folder: Path) -> None:
    without_weights(folder)
    (folder / "config.json").unlink()
    os.symlink("../../blobs/1234", folder / "config.json")


def weights_without_blobs(folder: Path) -> None:
    without_weights(folder)
    os.symlink("../../blobs/1234", folder / "model.safetensors")


def several(folder: Path) -> None:
    without_weights(folder)
    for name in ("a.safetensors", "b.safetensors"):
        (folder / name).write_bytes(b"x")


@pytest.mark.parametrize(
    ("change", "cause", "remedy"),
    [
        (adapter, "an adapter for org/base, not a model", "merge it into its model (peft: merge_and_unload)"),
        (adapter_with_config, "an adapter, not a model", "merge it"),
        (
            one_of("pytorch_model.bin"),
            "pickled weights (pytorch_model.bin), which can run code",
            "save_pretrained",
        ),
        (one_of("consolidated.00.pth", "params.json", config=False), "(consolidated)", "Hugging Face form"),
        (one_of("consolidated.safetensors"), "(consolidated)", "Hugging Face form"),
        (one_of("onnx/model.onnx"), "ONNX weights", "safetensors, or a GGUF file"),
        (one_of("model.onnx", config=False), "ONNX weights", "safetensors, or a GGUF file"),
        (
            one_of("a-Q4.gguf", "b-Q8.gguf", config=False),
            "has GGUF files",
            "give one of them: a-Q4.gguf, b-Q8.gguf",
        ),
        (one_of("a.gguf"), "has GGUF files", "give one of them: a.gguf"),
        (one_of("tf_model.h5"), "TensorFlow", "save_pretrained"),
        (one_of("weights.npz"), "MLX", "safetensors"),
        (one_of("model_index.json", config=False), "a pipeline for images", "another model"),
        (one_of("x.incomplete"), "download is not finished", "go on"),
        (deeper, "has no config.json: the model lies deeper", "give {folder}/inner"),
        (hub_cache, "the model lies deeper", "give {folder}/snapshots/abc"),
        (hub_cache_without_refs, "the model lies deeper", "give {folder}/snapshots/abc"),
        (without_blobs, "config.json is a link to a file that is not there", "cp -L"),
        (weights_without_blobs, "model.safetensors is a link to a file that is not there", "cp -L"),
        (several, "several safetensors files (a.safetensors, b.safetensors)", "leave the model's own"),
        (one_of(), "has no model.safetensors", "give a complete Hugging Face model folder or a GGUF file"),
    ],
)
def test_the_cause_and_the_remedy_are_named(
    change: Callable[[Path], None], cause: str, remedy: str, model: Path
) -> None:
    change(model)
    said = refused(model)
    assert cause in said
    assert remedy.format(folder=model) in said


def test_tokenizer_files(model: Path) -> None:
    (model / "tokenizer.json").unlink()
    assert "has no tokenizer.json; copy the model's" in refused(model)
    (model / "tekken.json").write_text("{}")
    assert "Mistral's tekken.json is not read" in refused(model)


def test_mlx_quantised_weights(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"quantization": {"group_size": 64, "bits": 4}}))
    with pytest.raises(ModelError, match=r"quantised .*MLX's.*; use the plain bf16 or fp32 one, or a GGUF"):
        DecoderConfig.load(model)


def test_an_adapter_beside_a_whole_model_does_not_hide_it(model: Path) -> None:
    whole = {k: v for file in model.glob("*.safetensors") for k, v in load_file(file).items()}
    without_weights(model)
    save_file(whole, model / "weights.safetensors", metadata={"format": "pt"})
    (model / "adapter_model.safetensors").write_bytes(b"x")
    assert resolve(str(model), lambda stage, fraction: None) == model
