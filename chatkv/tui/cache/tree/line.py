"""One row of the tree: what it says, and how that is laid out in a given width."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from types import MappingProxyType
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.cells import clip, pad, steady
from chatkv.tui.cache.labels import Labels
from chatkv.tui.cache.states import HERE, ONCE, Look, node_look
from chatkv.tui.cache.tree.rows import Row
from chatkv.tui.cache.tree.shape import ghost_of

GUIDE, PATH, STATS, CURSOR, LIT = "tree--guide", "tree--path", "tree--stats", "tree--cursor", "tree--lit"
TREE_CLASSES = {GUIDE, PATH, STATS, CURSOR, LIT}

_NARROW = 32
"""Cells under which only the token count stays of the figures."""
_MIDDLE, _WIDE, _WIDEST = 54, 66, 88
"""Cells from which the sessions' numbers, hits and age as well, and the name of a single one have room."""
_SESSIONS, _NUMBERS = 18, 7
"""Cells for names and for numbers."""
_MANY = 5
"""Sessions from which they are counted: so many numbers nobody reads."""


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
    lead: str
    """``HERE``, ``ONCE`` or a space."""
    cursor: bool
    faint: bool = False
    """A ghost that is soon to go."""
    copied: bool = False
    """The latest request copied slots of it."""
    hits: int | None = None
    age: int | None = None
    """Requests since it was last used."""
    sessions: str = ""
    """Who uses it, in words."""
    numbers: str | None = None
    """The same by the numbers that sessions have in lists and on their keys; None: they have none."""
    lit: bool = False
    """Something else that was selected points to it."""
    hidden: int = 0
    """Rows that are folded away under it."""


def describe(
    row: Row,
    mirror: Mirror,
    labels: Labels,
    session: str | None,
    cursor: bool,
    faint: Set[int] = frozenset(),
    names: Callable[[str], str] = str,
    lit: Set[int] = frozenset(),
    numbers: Mapping[str, int] = MappingProxyType({}),
) -> Line | None:
    """The row's line; None where the mirror has moved on and no longer has its node.

    ``faint``: keys in ``Mirror.ghosts`` of those soon to go. ``names``: a session's key → what people
    call it. ``lit``: nodes that stand out, by id. ``numbers``: session → its number in lists; a session
    without one is not there any more.
    """
    if row.key == ROOT:
        return Line("", None, False, "root", 0, None, None, " ", cursor, hidden=row.hidden)
    trail = frozenset() if session is None else mirror.trail(session)
    if row.key < 0:
        key = ghost_of(row.key)
        ghost = mirror.ghosts.get(key)
        if ghost is None:
            return None
        label = labels.label(ghost.tokens)
        mine = _lead(ghost.node, ghost.sessions, trail, session)
        size = len(ghost.tokens)
        line = Line(row.guide, Look.EVICTED, False, label, size, None, None, mine, cursor, key in faint)
        who, short = _named(ghost.sessions, names, numbers)
        return line._replace(sessions=who, numbers=short, lit=ghost.node in lit, hidden=row.hidden)
    node = mirror.nodes.get(row.key)
    if node is None:
        return None
    label = labels.label(node.tokens)
    if node.namespace and node.parent == ROOT:
        label = f"[{steady(node.namespace)}] {label}"
    look = node_look(node)
    who, short = _named(node.sessions, names, numbers)
    return Line(
        row.guide,
        Look.LEFT if look is Look.IDLE and mirror.left_behind(node) else look,
        node.pinned,
        label,
        len(node.tokens),
        node.locks,
        len(node.blocks),
        _lead(node.id, node.sessions, trail, session),
        cursor,
        copied=node.copied_epoch == mirror.epoch,
        hits=node.hits,
        age=mirror.epoch - node.used_epoch,
        sessions=who,
        numbers=short,
        lit=node.id in lit,
        hidden=row.hidden,
    )


def _lead(node: int, sessions: Set[str], trail: Set[int], session: str | None) -> str:
    return HERE if node in trail else ONCE if session in sessions else " "


def _named(
    sessions: Set[str], names: Callable[[str], str], numbers: Mapping[str, int]
) -> tuple[str, str | None]:
    """In words, and in numbers: that several share a node is what there is to see, so all of them count."""
    known = sorted(numbers[key] for key in sessions if key in numbers)
    short = f"×{len(known)}" if len(known) >= _MANY else " ".join(map(str, known))
    if len(known) > 1:
        return short, short
    shown = ", ".join(sorted(names(key) for key in sorted(sessions)[:3]))
    if len(sessions) > 3:
        shown += f" +{len(sessions) - 3}"
    if len(sessions) == 1:
        shown = f"{short} {shown}".strip()
    return shown, short if numbers else None


def figures(line: Line, width: int) -> str:
    """Tokens, locks (r), blocks, hits, how many requests ago it was used, sessions: columns of their own."""
    if line.look is None:
        return ""
    who = ""
    if width >= _WIDEST:
        who = f" {pad(line.sessions, _SESSIONS)}"
    elif width >= _MIDDLE and line.numbers is not None:
        who = f" {pad(line.numbers, _NUMBERS)}"
    if width >= _WIDE:
        age = "" if line.age is None else f"{line.age} ago" if line.age else "now"
        hits = "" if line.hits is None else f"h{line.hits}"
        who = f" {hits:<4} {age:<6}{who}"
    return _memory(line, width) + who


def _memory(line: Line, width: int) -> str:
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
    glyph = ""
    if line.look:
        glyph = line.look.glyph + ("*" if line.pinned else "") + ("~" if line.copied else "") + " "
    # A deep row gives the label at least half of the room: its guide loses the outermost levels.
    guide = line.guide[-max(2, room // 2) :]
    rest = room - cell_len(line.lead + guide + glyph)
    # How much is folded away is said in full: a label is only the beginning of a text anyway.
    folded = f" ⋯ {line.hidden:,} folded" if line.hidden else ""
    label = clip(line.label, max(0, rest - cell_len(folded))) + folded
    weight = style(PATH) if line.lead == HERE else Style.null()
    if line.lit:
        weight += style(LIT)
    colour = style(line.look.css) if line.look else Style.null()
    if line.faint:
        colour += Style(dim=True)
    segments = [
        Segment(line.lead, base + colour + weight),
        Segment(guide, base + style(GUIDE)),
        Segment(glyph, base + colour + weight),
        Segment(
            pad(label, max(0, rest)),
            base + (colour if line.look is not Look.IDLE else Style.null()) + weight,
        ),
        Segment(right, base + (style(Look.LOCKED.css) if line.locks else style(STATS))),
    ]
    strip = Strip(segments).adjust_cell_length(width, base)
    return strip.apply_style(style(CURSOR)) if line.cursor else strip


def plain(text: str, width: int, style: Style) -> Strip:
    """A line of our own words."""
    return Strip([Segment(clip(text, width), style)]).adjust_cell_length(width, style)
