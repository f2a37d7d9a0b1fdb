"""The picture as files: JSON that can be read back, and SVG to look at."""

from __future__ import annotations

import time
from pathlib import Path

from chatkv.files import private_folder
from chatkv.insight.export import save_snapshot
from chatkv.insight.snapshot import Snapshot
from chatkv.tui.desk import Desk


def export_picture(desk: Desk, folder: Path) -> tuple[Path, Path]:
    """Write what the screen shows of the cache into ``folder``; the paths of the JSON and the SVG file.

    Raises ChatkvError or OSError where the folder can't be written.
    """
    ready = desk.ready
    now = time.time()
    snapshot = Snapshot.from_mirror(
        desk.feed.mirror,
        model=ready.model if ready else "",
        attention=ready.attention if ready else "",
        wall_s=now,
        sessions={session.key: session.name for session in desk.book.sessions},
        decode=desk.decode if ready else None,
    )
    private_folder(folder)
    stem = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-seq{snapshot.seq}"
    json_path, svg_path = folder / f"{stem}.json", folder / f"{stem}.svg"
    save_snapshot(snapshot, json_path, "json")
    save_snapshot(snapshot, svg_path, "svg")
    return json_path, svg_path
