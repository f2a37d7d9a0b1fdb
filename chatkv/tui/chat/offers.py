"""What can be put in for what is being typed: commands, their arguments, and files behind ``@``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from chatkv.chat.settings import PARAMETERS
from chatkv.tui.chat.commands import BY_NAME, COMMANDS

SCANNED = 2_000
"""Names of a folder that are looked at."""
OFFERED = 40

_MENTION = re.compile(r"(?:^|(?<=\s))@(\S*)$")
_COMMAND = re.compile(r"/([A-Za-z-]*)$")
_ARGUMENT = re.compile(r"/([A-Za-z-]+)\s+(.*)$")


class Choice(NamedTuple):
    """``text`` takes the place of what was typed; ``file`` is inserted instead, where there is one."""

    text: str
    hint: str = ""
    file: Path | None = None


class Offer(NamedTuple):
    """``choices`` for the characters from ``start`` to the cursor, in its row."""

    start: int
    choices: tuple[Choice, ...]


@dataclass(slots=True)
class Sources:
    """Where names come from: read when they are asked for."""

    presets: Callable[[], Iterable[tuple[str, str]]] = field(default=lambda: ())
    """(name, what it sets)."""
    themes: Callable[[], Iterable[str]] = field(default=lambda: ())


def offer(before: str, first_row: bool, sources: Sources) -> Offer | None:
    """For the text ``before`` the cursor in its row; None where there is nothing to offer."""
    found = None
    if first_row and (match := _COMMAND.fullmatch(before)):
        found = Offer(0, _commands(match[1].casefold()))
    elif first_row and (match := _ARGUMENT.fullmatch(before)):
        found = _argument(match[1].casefold(), match[2], match.start(2), sources)
    elif match := _MENTION.search(before):
        found = Offer(match.start(), tuple(_files(match[1], "@", insert=True)))
    return found if found and found.choices else None


def _commands(typed: str) -> tuple[Choice, ...]:
    return tuple(
        Choice(f"/{c.name}" + (" " if c.args else ""), f"{c.args}  {c.what}".strip())
        for c in COMMANDS
        if c.name.startswith(typed)
    )


def _argument(name: str, typed: str, at: int, sources: Sources) -> Offer | None:
    takes = BY_NAME[name].takes if name in BY_NAME else ""
    words: list[tuple[str, str]] = []
    match takes:
        case "path":
            insert = name == "file"
            return Offer(at, tuple(_files(typed, "", insert=insert)))
        case "export":
            kind, space, rest = typed.partition(" ")
            if space and kind:
                return Offer(at + len(kind) + 1, tuple(_files(rest, "", insert=False)))
            words = [("md ", "Markdown"), ("json ", "OpenAI-style chat JSON")]
        case "parameter":
            words = [(f"{known} ", f"{p.help} ({p.wanted})") for known, p in PARAMETERS.items()]
            words.append(("default", "everything as chatkv run was started"))
        case "preset":
            words = [*sources.presets(), ("save ", "keep this session's settings under a name")]
        case "theme":
            words = [(theme, "") for theme in sources.themes()]
        case "clear":
            words = [("cache", "forget every cached prefix")]
    return Offer(at, tuple(Choice(w, hint) for w, hint in words if w.startswith(typed) and w != typed))


def _files(typed: str, mark: str, *, insert: bool) -> Iterable[Choice]:
    """Those whose path begins with ``typed``; folders end in ``/`` and are gone on in."""
    folder, _, name = typed.rpartition("/")
    base = folder + "/" if "/" in typed else ""
    try:
        with os.scandir(os.path.expanduser(base) or ".") as entries:
            found = sorted(
                (not entry.is_dir(), entry.name)
                for entry in islice(entries, SCANNED)
                if entry.name.startswith(name) and (name.startswith(".") or not entry.name.startswith("."))
            )
    except (OSError, ValueError):
        return
    for is_file, entry_name in found[:OFFERED]:
        path = base + entry_name
        if not is_file:
            yield Choice(f"{mark}{path}/", "folder")
        elif insert:
            yield Choice(mark + path, "insert", Path(os.path.expanduser(path)))
        else:
            yield Choice(mark + path)
