"""A snapshot as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from chatkv.insight import layout
from chatkv.insight.nodes import GLYPHS, BlockState
from chatkv.insight.snapshot import Snapshot
from chatkv.insight.visible import cells, counted

TEXT_NODES = 1000
TEXT_DEPTH = 40


def render_text(snapshot: Snapshot) -> str:
    """Head, tree, block map and block table; only printable characters and newlines."""
    return "\n".join(line.rstrip() for line in _lines(snapshot)) + "\n"


def _lines(snapshot: Snapshot) -> Iterator[str]:
    yield f"chatkv · {layout.headline(snapshot)}"
    yield from layout.summary(snapshot)
    yield "  ".join(f"{state.glyph} {word}" for state, word in layout.legend())
    yield ""
    yield from _tree(snapshot)
    yield ""
    yield from _map(snapshot)
    if snapshot.rows:
        yield ""
        yield "Block table"
        lines, left = layout.table_rows(snapshot)
        yield from lines
        if left:
            yield f"… {counted(left, 'more row')} not shown"


def _tree(snapshot: Snapshot) -> Iterator[str]:
    yield layout.tree_title(snapshot)
    yield "root"
    rows, left = layout.tree_rows(snapshot, TEXT_NODES, TEXT_DEPTH)
    widest = max((2 * row.depth + cells(row.label) for row in rows), default=0)
    for row in rows:
        branch = "".join("  " if last else "│ " for last in row.lasts)
        if not row.chained:
            branch = branch[:-2] + ("└─" if row.lasts[-1] else "├─")
        gap = " " * (widest - 2 * row.depth - cells(row.label) + 2)
        yield f"{branch}{row.state.glyph} {row.label}{gap}{row.detail}"
    if left:
        yield f"… {counted(left, 'more node')} not shown"


def _map(snapshot: Snapshot) -> Iterator[str]:
    config = snapshot.config
    yield f"Blocks {config.num_blocks - snapshot.pool.free}/{config.num_blocks} · {config.block_size} tok"
    rows, left = layout.block_rows(snapshot)
    width = len(str(config.num_blocks))
    for row in rows:
        if row.skipped:
            yield f"{'⋮':>{width}} {row.skipped} more blocks, all {word(row.states[0])}"
        else:
            yield f"{row.first:>{width}} {''.join(GLYPHS[state] for state in row.states)}"
    if left:
        yield f"… {counted(left, 'more block')} not shown"


def word(state: BlockState) -> str:
    """``free``, ``new`` …"""
    return state.name.lower()
