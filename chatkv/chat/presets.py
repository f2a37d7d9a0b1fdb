"""Presets: a system prompt and sampling under a name; three come along, one's own are TOML files."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from chatkv.chat.errors import ChatError
from chatkv.chat.settings import Settings, checked, describe
from chatkv.documents import parse_toml
from chatkv.files import private_folder, read_text, write_whole
from chatkv.text import one_line, printable

NAME = re.compile(r"[\w-]{1,40}")
MAX_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Preset:
    """``system`` None: it leaves the session's system prompt as it is."""

    name: str
    system: str | None = None
    sampling: Settings = field(default_factory=dict)

    @property
    def what(self) -> str:
        """What it sets, in one line."""
        system = "" if self.system is None else f"system prompt “{one_line(self.system, 40)}”"
        return " · ".join(part for part in (describe(self.sampling), system) if part) or "nothing set"


BUILT_IN = (
    Preset("precise", sampling={"temperature": 0}),
    Preset("balanced", sampling={"temperature": 0.7, "top_p": 0.9}),
    Preset("creative", sampling={"temperature": 1.0, "top_p": 0.95}),
)


def load_presets(folder: Path) -> tuple[dict[str, Preset], list[str]]:
    """By name, those of ``folder`` in place of built-in ones; and a line for each file with a fault."""
    presets = {preset.name: preset for preset in BUILT_IN}
    faults: list[str] = []
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except FileNotFoundError:
        return presets, []
    except OSError as error:
        return presets, [f"can't read the presets in {folder}: {error.strerror or error}"]
    for path in paths:
        try:
            preset, told = _read(path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            faults.append(one_line(f"preset {path.name}: {reason}", 200))
            continue
        presets[preset.name] = preset
        faults += [one_line(f"preset {path.name}: {line}", 200) for line in told]
    return presets, faults


def _read(path: Path) -> tuple[Preset, list[str]]:
    if NAME.fullmatch(path.stem) is None:
        raise ValueError("its name may have letters, digits, - and _ only")
    given = parse_toml(read_text(path, MAX_BYTES))
    system = given.pop("system", None)
    if system is not None and not isinstance(system, str):
        raise ValueError("system must be text")
    sampling, faults = checked(given)
    return Preset(path.stem, system, sampling), faults


def save_preset(folder: Path, preset: Preset) -> Path:
    """Write it as ``NAME.toml``, in place of an older one.

    Raises:
        ChatError: its name is no name, or it can't be written.
    """
    if NAME.fullmatch(preset.name) is None:
        raise ChatError("a preset's name may have letters, digits, - and _ only, up to 40")
    lines = [] if preset.system is None else [f"system = {_quoted(preset.system)}"]
    lines += [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in preset.sampling.items()]
    path = folder / f"{preset.name}.toml"
    try:
        private_folder(folder)
        write_whole(path, "\n".join(lines) + "\n", private=True)
    except OSError as error:
        raise ChatError(f"can't save the preset {path}: {error.strerror or error}") from error
    return path


def _quoted(text: str) -> str:
    """As a TOML string: JSON's escapes are TOML's where no control character is left."""
    return json.dumps(printable(text), ensure_ascii=False)
