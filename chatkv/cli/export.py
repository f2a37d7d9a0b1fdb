"""``chatkv export``: a snapshot file as a picture, as text or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chatkv.cli.choices import choice

_BY_SUFFIX = {".svg": "svg", ".json": "json"}


def export(
    snapshot: Annotated[Path, typer.Argument(help="A snapshot file that the chat's export key wrote.")],
    format: Annotated[
        str | None,
        choice(("svg", "text", "json"), "Default: by the name of the output file, else text."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: standard output.")
    ] = None,
) -> None:
    """Turn a snapshot of the cache into SVG, text or JSON."""
    from chatkv.insight.export import export_snapshot, save_snapshot
    from chatkv.insight.snapshot import Snapshot

    suffix = "" if output is None else output.suffix.lower()
    kind = format or _BY_SUFFIX.get(suffix, "text")
    taken = Snapshot.load(snapshot)
    if output is None:
        print(export_snapshot(taken, kind).removesuffix("\n"))
    else:
        save_snapshot(taken, output, kind)
        print(f"wrote {output}")
