"""A person's folder of themes, looked at again and again: what is new, changed, gone or faulty."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from textual.theme import Theme

from chatkv.tui.themes import ThemeError, ThemeProblem, read_theme

Stamp = tuple[int, int, int]
"""When a file was written (ns), how large it is, which one it is; zeros for what can't be looked at."""


@dataclass(slots=True)
class Changes:
    """What has happened since the last time."""

    themes: list[Theme] = field(default_factory=list)
    """New, or changed."""
    gone: list[str] = field(default_factory=list)
    """Names that no file has any more."""
    problems: list[ThemeProblem] = field(default_factory=list)
    """Faults not told before. The file's last good theme stays."""


class ThemeFolder:
    """``taken``: names that are others' already. A name belongs to the first file that has it."""

    def __init__(self, folder: Path, taken: Collection[str]) -> None:
        self._folder = folder
        self._others = frozenset(taken)
        self._seen: dict[str, Stamp] = {}
        """What the folder held at the last look."""
        self._read: dict[str, Stamp] = {}
        """What it held when its files were read last."""
        self._names: dict[str, str] = {}
        """File → the name of its theme."""
        self._faults: dict[str, str] = {}
        """File → what is wrong with it."""

    def poll(self) -> Changes | None:
        """What has changed and been left alone since the last call: an editor may be half way through."""
        before, self._seen = self._seen, self._scan()
        return self.take() if self._seen == before != self._read else None

    def take(self) -> Changes:
        """What has changed since files were read last, at once."""
        before, self._read = self._read, self._scan()
        changes = Changes()
        held = dict(self._names)
        for file in held.keys() - self._read.keys():
            del self._names[file]
        self._faults = {file: fault for file, fault in self._faults.items() if file in self._read}
        for file, stamp in sorted(self._read.items()):
            # A faulty one is tried again: the name it wanted may be free now.
            if before.get(file) != stamp or file in self._faults:
                self._take_file(file, changes)
        changes.gone = sorted(set(held.values()) - set(self._names.values()))
        return changes

    def _take_file(self, file: str, changes: Changes) -> None:
        try:
            theme = read_theme(self._folder / file)
            if theme.name in self._others or theme.name in (
                name for other, name in self._names.items() if other != file
            ):
                raise ThemeError(f"the name '{theme.name}' is taken; give it another")
        except ThemeError as fault:
            if self._faults.get(file) != str(fault):
                self._faults[file] = str(fault)
                changes.problems.append(ThemeProblem(self._folder / file, str(fault)))
        else:
            self._faults.pop(file, None)
            self._names[file] = theme.name
            changes.themes.append(theme)

    def _scan(self) -> dict[str, Stamp]:
        found: dict[str, Stamp] = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".toml"):
                        found[entry.name] = _stamp(entry)
        except OSError:  # most people have none
            return {}
        return found


def _stamp(entry: os.DirEntry[str]) -> Stamp:
    try:
        stat = entry.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)
