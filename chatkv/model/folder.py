"""What a folder that is given as a model holds: its weight files, or why it is none and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from chatkv.files import is_special
from chatkv.model.config import read_json
from chatkv.model.errors import ModelError
from chatkv.model.lfs import refuse_pointer
from chatkv.text import one_line

_READ = ("*.json", "*.jinja", "*.safetensors", "tokenizer.model", "*.txt")
"""What is read of a model folder."""

_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")
_ADAPTERS = ("adapter_model.safetensors", "adapters.safetensors")
_SHARD = re.compile(r".+-\d{5}-of-(\d{5})\.safetensors")
_UNFINISHED = (".incomplete", ".part", ".partial", ".crdownload", ".aria2", ".download")
_NAMED = 3
"""Folders or files that a message names."""

# Forms of weights that are not read: patterns, what they are, what to do.
_CONVERT = "load it with transformers and save it with save_pretrained, which writes safetensors"
_OTHER_FORMS = (
    (("*.gguf",), "GGUF files", "give one of them: {found}"),
    (
        ("consolidated*.safetensors", "consolidated.*.pth", "params.json"),
        "the makers' own form of the weights (consolidated)",
        "use the Hugging Face form of the model",
    ),
    (("*.onnx", "onnx/*.onnx"), "ONNX weights", "use the model's folder with safetensors, or a GGUF file"),
    (("*.bin", "*.pth", "*.pt", "*.ckpt"), "pickled weights ({found}), which can run code", _CONVERT),
    (("*.h5", "*.msgpack", "*.ot"), "weights for TensorFlow, Flax or Rust", _CONVERT),
    (("model_index.json",), "a pipeline for images, not a language model", "use another model"),
    (("*.npz",), "weights of MLX (.npz)", "use the model's folder with safetensors, or a GGUF file"),
)


def checked(folder: Path) -> Path:
    """``folder`` if it can be a model's; raises ModelError naming what it lacks, and the remedy."""
    for pattern in _READ:
        for file in folder.glob(pattern):
            # Tokenizer and weights are opened by libraries, which would wait for a pipe's writer.
            if is_special(file):
                raise ModelError(f"{file} is not a file: it is a device, a pipe or a socket")
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json: {_what_instead(folder)}")
    weight_files(folder)
    if not any((folder / file).is_file() for file in _TOKENIZERS):
        if (folder / "tekken.json").is_file():
            raise ModelError(
                f"{folder} has no tokenizer.json: Mistral's tekken.json is not read; use a folder with both"
            )
        raise ModelError(
            f"{folder} has no tokenizer.json{_dangling(folder, _TOKENIZERS)}; "
            "copy the model's tokenizer files into it"
        )
    return folder


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of ``folder``; raises ModelError where there are none or a shard is missing."""
    files = _weight_files(folder)
    for file in files:
        refuse_pointer(file)
    return files


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        weight_map = read_json(index).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise ModelError(f"{index} has no weight_map; download it again")
        # Only the name is taken: an index must not point outside its folder.
        files = sorted({folder / Path(str(name)).name for name in weight_map.values()})
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            more = f", and {len(missing) - 1} more of {len(files)}" if len(missing) > 1 else ""
            raise ModelError(
                f"{folder}: shard {one_line(missing[0])} is missing{more}{_dangling(folder, missing)}; "
                "download the model again"
            )
        return files
    single = folder / "model.safetensors"
    if single.is_file():
        return [single]
    found = [
        file
        for file in sorted(folder.glob("*.safetensors"))
        if file.is_file() and file.name not in _ADAPTERS and not file.name.startswith("consolidated")
    ]
    shards = [shard for file in found if (shard := _SHARD.fullmatch(file.name))]
    if shards:
        raise ModelError(
            f"{folder} has {len(shards)} of {int(shards[0][1])} shards but no model.safetensors.index.json, "
            "which says what is in them: download that, and what else is missing, into it"
        )
    if len(found) == 1:
        return found
    if found:
        raise ModelError(
            f"{folder} has several safetensors files ({_names(found)}) and no model.safetensors: "
            "leave the model's own there, alone"
        )
    raise ModelError(f"{folder} has no model.safetensors: {_what_instead(folder)}")


def _what_instead(folder: Path) -> str:
    """What ``folder`` holds in place of a model's weights or config, and what to do about it."""
    if (folder / "adapter_config.json").is_file() or any((folder / name).is_file() for name in _ADAPTERS):
        return (
            f"it holds an adapter{_base(folder)}, not a model: merge it into its model "
            "(peft: merge_and_unload) and give what comes out"
        )
    if dangling := _dangling(folder, ("config.json", "model.safetensors", "model.safetensors.index.json")):
        return f"{dangling.strip()}; download the model again, or copy it with what its links lead to (cp -L)"
    if inside := _models_inside(folder):
        shown = " or ".join(one_line(str(path), 300) for path in inside[:_NAMED])
        return f"the model lies deeper: give {shown}{' …' if len(inside) > _NAMED else ''}"
    for patterns, what, remedy in _OTHER_FORMS:
        found = sorted({file for pattern in patterns for file in folder.glob(pattern)})
        if found:
            names = _names(found)
            return f"it has {what.format(found=names)}; {remedy.format(found=names)}"
    if any(next(folder.glob(f"*{end}"), None) for end in _UNFINISHED):
        return "its download is not finished; go on with it"
    return "give a complete Hugging Face model folder or a GGUF file"


def _models_inside(folder: Path) -> list[Path]:
    """Folders with a model below this one: of the hub's cache its main revision, else the next level's."""
    snapshots = folder / "snapshots"
    if snapshots.is_dir():
        try:
            main = snapshots / (folder / "refs" / "main").read_text(encoding="utf-8").strip()[:64]
        except (OSError, ValueError):
            main = snapshots
        if main != snapshots and (main / "config.json").is_file():
            return [main]
    return sorted(
        config.parent
        for pattern in ("*/config.json", "snapshots/*/config.json")
        for config in folder.glob(pattern)
    )


def _base(folder: Path) -> str:
    """Of an adapter: for which model it is, where that is told."""
    file = folder / "adapter_config.json"
    base = read_json(file).get("base_model_name_or_path") if file.is_file() else None
    return f" for {one_line(base, 80)}" if isinstance(base, str) and base else ""


def _dangling(folder: Path, names: Iterable[str]) -> str:
    """Words where one of ``names`` is a link to nothing, as in a copy of the hub's cache without blobs."""
    for name in names:
        if (folder / name).is_symlink() and not (folder / name).exists():
            return f" ({one_line(name)} is a link to a file that is not there)"
    return ""


def _names(files: list[Path]) -> str:
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    return ", ".join(one_line(file.name) for file in files[:_NAMED]) + more
