"""What tab offers for values. Quick and silent: no torch, no Textual where it can be helped, no errors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import typer

from chatkv.documents import parse_toml
from chatkv.files import read_text
from chatkv.text import one_line

Offers = list[str | tuple[str, str]]
"""Values, or values with a word on them."""

VARIABLE = "_CHATKV_COMPLETE"
"""Set by the shell while it asks for completions."""
_NEWEST = 50
_SMALL = 256 * 1024


def one_of(values: Iterable[str]) -> Callable[[str], Offers]:
    """For an option with these values."""
    known = tuple(values)

    def offer(incomplete: str) -> Offers:
        return [value for value in known if value.startswith(incomplete)]

    return offer


def some_of(values: Iterable[str]) -> Callable[[str], Offers]:
    """For an option with several of these, separated by commas."""
    known = tuple(values)

    def offer(incomplete: str) -> Offers:
        given, comma, last = incomplete.rpartition(",")
        left = [value for value in known if value not in given.split(",")]
        return [f"{given}{comma}{value}" for value in left if value.startswith(last)]

    return offer


_WORD = re.compile(r"[\w.@/+:,=~-]+")
_QUOTING = re.compile(r"[\\\"'`$\[\]]")


def harmless(offers: Offers) -> Offers:
    """Without what a shell could take for more than a word: names are what anybody wrote, and typer's
    script for zsh evaluates them (a backslash before ``$(`` was enough to have it run).
    """
    pairs = [offer if isinstance(offer, tuple) else (offer, "") for offer in offers]
    return [
        (value, _QUOTING.sub("", one_line(word, 60))) if word else value
        for value, word in pairs
        if _WORD.fullmatch(value)
    ]


def themes(incomplete: str) -> Offers:
    """Names of themes: chatkv's and the person's own, then Textual's."""
    from chatkv.paths import config_dir, packaged

    found: dict[str, None] = {}
    for folder in (packaged("themes"), config_dir() / "themes"):
        for path in sorted(_files(folder, ".toml")):
            with suppress(OSError, ValueError):
                name = parse_toml(read_text(path, _SMALL)).get("name", path.stem)
                if isinstance(name, str):
                    found[name] = None
    near = harmless([name for name in found if name.startswith(incomplete)])
    if incomplete and near:
        return near
    from textual.theme import BUILTIN_THEMES  # takes longer than all the rest

    return [*near, *(name for name in sorted(BUILTIN_THEMES) if name.startswith(incomplete))]


def models(incomplete: str) -> Offers:
    """Names from the catalogue and of models in the Hugging Face cache; the shell offers paths."""
    from chatkv.model.catalog import catalog

    offers: Offers = [
        (entry.name, entry.description) for entry in catalog() if entry.name.startswith(incomplete)
    ]
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    hub = Path(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub"))
    for path in sorted(_files(hub, "", "models--")):
        name = path.name.removeprefix("models--").replace("--", "/", 1)
        if name.startswith(incomplete):
            offers.append((name, "in the Hugging Face cache"))
    return harmless(offers)


def sessions(context: typer.Context, incomplete: str) -> Offers:
    """Ids of sessions, the newest first, with their names."""
    from chatkv.chat.reader import read
    from chatkv.paths import data_dir

    asked = context.params.get("folder") or (context.parent and context.parent.params.get("folder"))
    folder = Path(os.path.expanduser(asked or data_dir() / "sessions"))
    offers: Offers = []
    for path in sorted(_files(folder, ".jsonl"), reverse=True):
        named = re.fullmatch(r"[\dT.]+Z-(.+)", path.stem)
        if named is None or not named[1].startswith(incomplete):
            continue
        name = ""
        if len(offers) < _NEWEST:
            with suppress(OSError, ValueError):
                if path.stat().st_size <= _SMALL:
                    name = read(path).conversation.name
        offers.append((named[1], name))
    return harmless(offers)


def _files(folder: Path, suffix: str, prefix: str = "") -> Iterator[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(suffix) and entry.name.startswith(prefix):
                yield Path(entry.path)
