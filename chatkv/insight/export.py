"""A snapshot in one of the formats people ask for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chatkv.errors import UsageError
from chatkv.insight.render import render_text
from chatkv.insight.snapshot import Snapshot, write_snapshot
from chatkv.insight.svg import render_svg

FORMATS: dict[str, Callable[[Snapshot], str]] = {
    "json": Snapshot.to_json,
    "svg": render_svg,
    "text": render_text,
}
"""Name → writer."""


def export_snapshot(snapshot: Snapshot, format: str) -> str:
    """The snapshot as ``json``, ``svg`` or ``text``. Raises UsageError for another format."""
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}")
    return FORMATS[format](snapshot)


def save_snapshot(snapshot: Snapshot, path: Path, format: str) -> None:
    """``export_snapshot`` into a file, as a whole or not at all. Raises UsageError, SnapshotError."""
    write_snapshot(path, export_snapshot(snapshot, format))
