"""One row of the tree: what it says, and how that is laid out in a given width."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.cells import clip, pad, steady
from chatkv.tui.cache.labels import Labels
from chatkv.tui.cache.states import Look, node_look
from chatkv.tui.cache.tree_rows import Row, ghost_of

GUIDE, PATH, STATS, CURSOR = "tree--guide", "tree--path", "tree--stats", "tree--cursor"
TREE_CLASSES = {GUIDE, PATH, STATS, CURSOR}

_NARROW = 32
"""Cells under which only the token count stays of the figures."""


class Line(NamedTuple):
    """All that a row shows; equal lines look equal."""

    guide: str
    look: Look | None
    """None: the root."""
    pinned: bool
    label: str
    tokens: int
    locks: int | None
    """None: a ghost, which has neither locks nor blocks."""
    blocks: int | None
    on_path: bool
    """It holds tokens of the focused session."""
    cursor: bool
    faint: bool = False
    """A ghost that is soon to go."""


def describe(
    row: Row,
    mirror: Mirror,
    labels: Labels,
    session: str | None,
    cursor: bool,
    faint: Set[int] = frozenset(),
) -> Line | None:
    """The row's line; None where the mirror has moved on and no longer has its node.

    ``faint``: keys in ``Mirror.ghosts`` of those soon to go.
    """
    hidden = f" ⋯ {row.hidden} folded" if row.hidden else ""
    if row.key == ROOT:
        return Line("", None, False, "root" + hidden, 0, None, None, False, cursor)
    if row.key < 0:
        key = ghost_of(row.key)
        ghost = mirror.ghosts.get(key)
        if ghost is None:
            return None
        label = labels.label(ghost.tokens) + hidden
        mine = session in ghost.sessions
        size = len(ghost.tokens)
        return Line(row.guide, Look.EVICTED, False, label, size, None, None, mine, cursor, key in faint)
    node = mirror.nodes.get(row.key)
    if node is None:
        return None
    label = labels.label(node.tokens)
    if node.namespace and node.parent == ROOT:
        label = f"[{steady(node.namespace)}] {label}"
    return Line(
        row.guide,
        node_look(node),
        node.pinned,
        label + hidden,
        len(node.tokens),
        node.locks,
        len(node.blocks),
        session in node.sessions,
        cursor,
    )


def figures(line: Line, width: int) -> str:
    """Tokens, locks and blocks in columns of their own."""
    if line.look is None:
        return ""
    tokens = f" {line.tokens:>5}t"
    if width < _NARROW:
        return tokens
    if line.locks is None:
        return tokens + " " * 10
    return f"{tokens} {f'r{line.locks}':<3} {f'b{line.blocks}':<5}"


def draw(line: Line, width: int, style: Callable[[str], Style], base: Style) -> Strip:
    """The line in ``width`` cells; ``style`` gives a component class's partial style."""
    right = figures(line, width)
    room = max(0, width - cell_len(right))
    lead = "▸" if line.on_path else " "
    glyph = (line.look.glyph + ("*" if line.pinned else "") + " ") if line.look else ""
    # A deep row gives the label at least half of the room: its guide loses the outermost levels.
    guide = line.guide[-max(2, room // 2) :]
    rest = room - cell_len(lead + guide + glyph)
    weight = style(PATH) if line.on_path else Style.null()
    colour = style(line.look.css) if line.look else Style.null()
    if line.faint:
        colour += Style(dim=True)
    segments = [
        Segment(lead, base + colour + weight),
        Segment(guide, base + style(GUIDE)),
        Segment(glyph, base + colour + weight),
        Segment(
            pad(line.label, max(0, rest)),
            base + (colour if line.look is not Look.IDLE else Style.null()) + weight,
        ),
        Segment(right, base + (style(Look.LOCKED.css) if line.locks else style(STATS))),
    ]
    strip = Strip(segments).adjust_cell_length(width, base)
    return strip.apply_style(style(CURSOR)) if line.cursor else strip


def plain(text: str, width: int, style: Style) -> Strip:
    """A line of our own words."""
    return Strip([Segment(clip(text, width), style)]).adjust_cell_length(width, style)
