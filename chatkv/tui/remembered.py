"""How a person left the screen, for the next time: panes, captions, theme, tour. Never what they wrote."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TypeVar, cast

from chatkv.documents import DocumentError, parse_json
from chatkv.files import private_folder, read_text, write_whole

logger = logging.getLogger(__name__)

Value = bool | int | float | str | list[str] | dict[str, int] | dict[str, float]
V = TypeVar("V", bound=Value)

MAX_BYTES = 1 << 20


class Remembered:
    """Named values in one JSON file, written at each change; ``path`` None keeps them in memory only.

    A file that can't be read or written costs what was remembered, never the chat: it is logged.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._values = _read(path)

    def get(self, key: str, default: V) -> V:
        """The value, if one of the same type as ``default`` is remembered (in lists and tables too)."""
        found = self._values.get(key)
        return cast(V, found) if _alike(found, default) else default

    def set(self, key: str, value: Value) -> None:
        """Remember ``value`` under ``key``."""
        if key in self._values and type(self._values[key]) is type(value) and self._values[key] == value:
            return
        self._values[key] = value
        if self._path is None:
            return
        try:
            private_folder(self._path.parent)
            write_whole(self._path, json.dumps(self._values, indent=1) + "\n", private=True)
        except OSError as error:
            logger.warning("can't remember %s: %s", key, error)


def _read(path: Path | None) -> dict[str, object]:
    if path is None:
        return {}
    try:
        if not path.exists():
            return {}
        values = parse_json(read_text(path, MAX_BYTES))
    except (OSError, DocumentError) as error:
        logger.warning("what was remembered of the screen can't be read: %s", error)
        return {}
    return values if isinstance(values, dict) else {}


def _alike(found: object, default: object) -> bool:
    """Is ``found`` of ``default``'s type? What lists and tables hold counts too."""
    if isinstance(default, list):
        return isinstance(found, list) and all(isinstance(item, str) for item in found)
    if isinstance(default, dict):
        # bool is an int to isinstance.
        return isinstance(found, dict) and all(type(item) in (int, float) for item in found.values())
    return type(found) is type(default)
