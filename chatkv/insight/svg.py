"""A snapshot as one standalone SVG picture: new green, reused blue, evicted orange, and a glyph for each."""

from __future__ import annotations

from xml.sax.saxutils import escape

from chatkv.insight import layout
from chatkv.insight.nodes import BlockState
from chatkv.insight.snapshot import Snapshot
from chatkv.insight.visible import cells, counted, visible

SVG_NODES = 200
SVG_DEPTH = 30

FONT = "Fira Code, DejaVu Sans Mono, monospace"
SIZE = 13
CELL = 7.9
"""Width of a character of the font at ``SIZE``, a little generous: fonts differ."""
LINE = 20
MARGIN = 20
INDENT = 18
BOX = 15
"""Edge of a block in the map."""

INK, QUIET, RULE, PAPER = "#1f2328", "#59636e", "#b8c0c8", "#ffffff"
# Fill, edge and glyph. The first three are told apart by the colour-blind too (Okabe and Ito's palette).
COLOURS = {
    BlockState.NEW: ("#c6ecdf", "#009e73", "#00573f"),
    BlockState.REUSED: ("#cfe4f5", "#0072b2", "#00436b"),
    BlockState.EVICTED: ("#fbdcc4", "#d55e00", "#8a3d00"),
    BlockState.LOCKED: ("#dfe3e8", "#59636e", "#1f2328"),
    BlockState.IDLE: ("#f1f3f5", "#9aa4ae", "#59636e"),
    BlockState.FREE: ("#ffffff", "#d5dae0", "#9aa4ae"),
}


class _Canvas:
    """Collects elements and how far they reach."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.right = 0.0
        self.bottom = 0.0

    def text(self, x: float, y: float, text: str, colour: str = INK, extra: str = "") -> None:
        """One line; its baseline is at ``y``."""
        shown = escape(visible(text))
        self.parts.append(f'<text x="{x:g}" y="{y:g}" fill="{colour}"{extra}>{shown}</text>')
        self._reach(x + cells(text) * CELL, y + 6)

    def box(self, x: float, y: float, state: BlockState, title: str = "") -> None:
        """A block or a node's badge: colour and glyph."""
        fill, edge, ink = COLOURS[state]
        tip = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(
            f'<g>{tip}<rect x="{x:g}" y="{y:g}" width="{BOX}" height="{BOX}" rx="2"'
            f' fill="{fill}" stroke="{edge}"/>'
            f'<text x="{x + BOX / 2:g}" y="{y + BOX - 3.5:g}" fill="{ink}" text-anchor="middle">'
            f"{state.glyph}</text></g>"
        )
        self._reach(x + BOX, y + BOX)

    def line(self, path: str) -> None:
        """A connector."""
        self.parts.append(f'<path d="{path}" fill="none" stroke="{RULE}"/>')

    def _reach(self, x: float, y: float) -> None:
        self.right, self.bottom = max(self.right, x), max(self.bottom, y)


def render_svg(snapshot: Snapshot) -> str:
    """The picture; it is as large as what it shows. Big trees are cut, with a line that says so."""
    canvas = _Canvas()
    top = _head(canvas, snapshot)
    _tree(canvas, snapshot, MARGIN, top)
    _map(canvas, snapshot, canvas.right + 2 * MARGIN, top)
    _table(canvas, snapshot, MARGIN, canvas.bottom + LINE + 8)
    width, height = round(canvas.right + MARGIN), round(canvas.bottom + MARGIN)
    title = escape(visible(f"chatkv: KV cache at seq {snapshot.seq}"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" font-family="{FONT}" font-size="{SIZE}"'
            ' xml:space="preserve" role="img">',
            f"<title>{title}</title>",
            "<style>text{white-space:pre}</style>",
            f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
            *canvas.parts,
            "</svg>\n",
        ]
    )


def _heading(canvas: _Canvas, x: float, y: float, text: str) -> None:
    canvas.text(x, y, text, extra=' font-weight="bold"')


def _head(canvas: _Canvas, snapshot: Snapshot) -> float:
    y = MARGIN + SIZE
    _heading(canvas, MARGIN, y, f"chatkv · {layout.headline(snapshot)}")
    for line in layout.summary(snapshot):
        y += LINE
        canvas.text(MARGIN, y, line, QUIET)
    y += LINE + 6
    x: float = MARGIN
    for state, word in layout.legend():
        canvas.box(x, y - BOX + 3, state)
        canvas.text(x + BOX + 6, y, word)
        x += BOX + 6 + (len(word) + 2) * CELL
    return y + 2 * LINE


def _tree(canvas: _Canvas, snapshot: Snapshot, x: float, y: float) -> None:
    _heading(canvas, x, y, layout.tree_title(snapshot))
    y += LINE + 4
    canvas.text(x, y, "root", QUIET)
    rows, left = layout.tree_rows(snapshot, SVG_NODES, SVG_DEPTH)
    widest = max((row.depth * INDENT + cells(row.label) * CELL for row in rows), default=0.0)
    for i, row in enumerate(rows):
        here = y + (i + 1) * LINE
        badge = x + 14 + row.depth * INDENT
        start = y + (row.above + 1) * LINE + 5
        if row.chained:
            canvas.line(f"M{badge + BOX / 2:g} {start:g}V{here - BOX + 3:g}")
        else:
            stem = badge - INDENT + BOX / 2 - 4
            canvas.line(f"M{stem:g} {start:g}V{here - 4.5:g}H{badge:g}")
        canvas.box(badge, here - BOX + 3, row.state)
        ink = COLOURS[row.state][2] if row.state is not BlockState.IDLE else INK
        canvas.text(badge + BOX + 6, here, row.label, ink)
        canvas.text(x + 14 + BOX + 6 + widest + 16, here, row.detail, QUIET)
    if left:
        canvas.text(x, y + (len(rows) + 1) * LINE, f"… {counted(left, 'more node')} not shown", QUIET)


def _map(canvas: _Canvas, snapshot: Snapshot, x: float, y: float) -> None:
    config = snapshot.config
    used = config.num_blocks - snapshot.pool.free
    _heading(canvas, x, y, f"Blocks {used}/{config.num_blocks} · {config.block_size} tok")
    rows, left = layout.block_rows(snapshot)
    gutter = (len(str(config.num_blocks)) + 1) * CELL
    y += 10
    for row in rows:
        if row.skipped:
            word = row.states[0].name.lower()
            canvas.text(x, y + BOX - 3, f"⋮ {row.skipped} more blocks, all {word}", QUIET)
        else:
            canvas.text(x, y + BOX - 3, str(row.first), QUIET)
            for i, state in enumerate(row.states):
                title = f"block {row.first + i}: {state.name.lower()}"
                canvas.box(x + gutter + i * (BOX + 2), y, state, title)
        y += BOX + 3
    if left:
        canvas.text(x, y + BOX - 3, f"… {counted(left, 'more block')} not shown", QUIET)


def _table(canvas: _Canvas, snapshot: Snapshot, x: float, y: float) -> None:
    if not snapshot.rows:
        return
    _heading(canvas, x, y, "Block table")
    lines, left = layout.table_rows(snapshot)
    for line in [*lines, f"… {counted(left, 'more row')} not shown"] if left else lines:
        y += LINE
        canvas.text(x, y, line)
