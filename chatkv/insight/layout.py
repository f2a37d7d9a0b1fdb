"""What a picture of a snapshot says, before it is text or SVG: rows of the tree, of blocks, of the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from chatkv.insight.nodes import BlockState, Mark
from chatkv.insight.reuse import reused
from chatkv.insight.snapshot import Snapshot
from chatkv.insight.snapshot_records import GhostRecord, NodeRecord
from chatkv.insight.visible import counted, cut
from chatkv.kvcache.events import ROOT

LABEL_CELLS = 44
NAME_CELLS = 24
MAP_COLUMNS = 32
MAP_ROWS = 128
TABLE_ROWS = 32


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A node or ghost in its place. ``lasts``: for each level from the top, is it the last child there?"""

    state: BlockState
    label: str
    detail: str
    lasts: tuple[bool, ...]
    above: int
    """Index of its parent's row; -1 for a child of the root."""
    chained: bool = False
    """It stands right below its parent, not deeper: an only child, where each block is a node."""

    @property
    def depth(self) -> int:
        """0 for a child of the root."""
        return len(self.lasts) - 1


@dataclass(frozen=True, slots=True)
class BlockRow:
    """``states`` of the blocks from ``first`` on; or ``skipped`` of them that all look alike."""

    first: int
    states: tuple[BlockState, ...]
    skipped: int = 0


def tree_title(snapshot: Snapshot) -> str:
    """``Radix tree · 12 nodes``."""
    if snapshot.config.cache == "hash":
        return f"Tree of blocks · {counted(len(snapshot.nodes), 'block')}"
    return f"Radix tree · {counted(len(snapshot.nodes), 'node')}"


def tree_rows(snapshot: Snapshot, limit: int, depth: int) -> tuple[list[TreeRow], int]:
    """At most ``limit`` rows from the top, none deeper than ``depth``, and how many were left out."""
    names = {item.id: item.name for item in snapshot.sessions}
    children = _children(snapshot)
    rows: list[TreeRow] = []
    stack: list[tuple[NodeRecord | GhostRecord, tuple[bool, ...], int, bool]] = [
        (item, (i == 0,), -1, False) for i, item in enumerate(children.get(ROOT, [])[::-1])
    ]
    while stack and len(rows) < limit:
        item, lasts, above, chained = stack.pop()
        at, place = len(rows), (lasts, above, chained)
        if isinstance(item, NodeRecord):
            rows.append(TreeRow(_state(item), _label(item), _node_detail(item, names), *place))
            key = item.id
        else:
            rows.append(TreeRow(BlockState.EVICTED, _label(item), _ghost_detail(item, names), *place))
            key = -item.node if item.part else item.node
        below = children.get(key, [])[::-1]
        if len(below) == 1 and snapshot.config.cache == "hash":
            stack.append((below[0], lasts, at, True))
        elif len(lasts) < depth:
            stack.extend((child, (*lasts, i == 0), at, False) for i, child in enumerate(below))
    return rows, len(snapshot.nodes) + len(snapshot.ghosts) - len(rows)


def block_rows(snapshot: Snapshot) -> tuple[list[BlockRow], int]:
    """The block map in rows of ``MAP_COLUMNS`` and how many blocks were left out at the end.

    Whole rows that look like nothing but the row before are folded into one that counts them.
    """
    rows: list[BlockRow] = []
    states: list[BlockState] = []
    for run in snapshot.block_map:
        states.extend([BlockState[run.state.upper()]] * run.count)
    chunks = [tuple(states[i : i + MAP_COLUMNS]) for i in range(0, len(states), MAP_COLUMNS)]
    at = 0
    for chunk, same in groupby(chunks):
        size, count = len(chunk), sum(1 for _ in same)
        if count > 2 and len(set(chunk)) == 1:
            rows += [BlockRow(at, chunk), BlockRow(at + size, (chunk[0],), (count - 1) * size)]
        else:
            rows += [BlockRow(at + i * size, chunk) for i in range(count)]
        at += count * size
    shown = rows[:MAP_ROWS]
    return shown, sum(row.skipped or len(row.states) for row in rows[MAP_ROWS:])


def table_rows(snapshot: Snapshot) -> tuple[list[str], int]:
    """A line for each open request's row of the block table, and how many were left out."""
    names = {item.id: item.name for item in snapshot.sessions}
    lines = []
    for row in snapshot.rows[:TABLE_ROWS]:
        who = _session(row.session, names)
        filled = f"{row.written} tok, {reused(row.reused + row.copied, row.copied)} reused"
        lines.append(f"request {row.request} {who}: {filled}, blocks {spans(row.blocks)}")
    return lines, len(snapshot.rows) - len(lines)


def headline(snapshot: Snapshot) -> str:
    """What was taken, where and when."""
    when = ""
    if snapshot.wall_s is not None and 0 <= snapshot.wall_s < 253402300800:
        when = datetime.fromtimestamp(snapshot.wall_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    parts = [cut(snapshot.model, 60), cut(snapshot.attention, 40), f"seq {snapshot.seq}", when]
    return " · ".join(part for part in parts if part)


def summary(snapshot: Snapshot) -> list[str]:
    """Configuration, counts and totals in a few lines."""
    config, pool, totals = snapshot.config, snapshot.pool, snapshot.totals
    setup = [
        cut(config.cache, NAME_CELLS),
        cut(config.eviction, NAME_CELLS),
        f"grain {cut(config.grain, 12)}",
    ]
    setup.append("whole blocks only" if config.strict else "exact to the token")
    return [
        " · ".join(
            [f"{counted(config.num_blocks, 'block')} of {counted(config.block_size, 'token')}", *setup]
        ),
        f"{pool.free} free · {pool.evictable} evictable · {pool.protected} protected",
        f"hit rate {totals.hit_rate:.1%} of {counted(totals.prompt_tokens, 'prompt token')}"
        f": {reused(totals.hit + totals.copied, totals.copied)} reused, {totals.computed} computed",
        f"{counted(totals.output_tokens, 'token')} generated"
        f" · {counted(totals.finished, 'request')} finished"
        f" · {totals.refused} refused · {totals.preempted} preempted",
        f"{counted(totals.evictions, 'eviction')} of {counted(totals.evicted_blocks, 'block')}",
    ]


def legend() -> list[tuple[BlockState, str]]:
    """Each state and its word, in the order people meet them."""
    order = ("NEW", "REUSED", "EVICTED", "LOCKED", "IDLE", "FREE")
    return [(BlockState[name], name.lower()) for name in order]


def spans(blocks: Sequence[int], limit: int = 12) -> str:
    """``4 9-12 31``: block ids with neighbours joined; a long list is cut and says so."""
    joined: list[list[int]] = []
    for block in blocks:
        if joined and block == joined[-1][-1] + 1:
            joined[-1].append(block)
        else:
            joined.append([block])
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in joined[:limit]]
    left = sum(len(run) for run in joined[limit:])
    return " ".join([*shown, f"and {left} more"] if left else shown) or "none"


def _children(snapshot: Snapshot) -> dict[int, list[NodeRecord | GhostRecord]]:
    """Live children first, then what was evicted. The ghost of a node's end has the key minus its id."""
    children: dict[int, list[NodeRecord | GhostRecord]] = {}
    present = {ROOT} | {node.id for node in snapshot.nodes}
    for node in snapshot.nodes:
        children.setdefault(node.parent, []).append(node)
    # The youngest first: a parent was evicted after its children, so it is in place before them.
    for ghost in reversed(snapshot.ghosts):
        place = _nearest((*ghost.path[:-1], ghost.parent), present)
        children.setdefault(place, []).append(ghost)
        if not ghost.part and ghost.node not in present:
            present.add(ghost.node)
    return children


def _nearest(path: Iterable[int], present: set[int]) -> int:
    """The lowest of a path that is still to be seen."""
    return next((node for node in reversed(tuple(path)) if node in present), ROOT)


def _state(node: NodeRecord) -> BlockState:
    if Mark(node.mark) is Mark.IDLE:
        return BlockState.LOCKED if node.locks else BlockState.IDLE
    return BlockState[node.mark.upper()]


def _label(item: NodeRecord | GhostRecord) -> str:
    text = item.text or " ".join(map(str, item.tokens[:LABEL_CELLS]))
    label = cut(text, LABEL_CELLS)
    return label if label.strip() else "␣" * len(label)


def _node_detail(node: NodeRecord, names: dict[str, str]) -> str:
    parts = [f"node {node.id}", f"{len(node.tokens)} tok", f"{len(node.blocks)} blk"]
    if node.locks:
        parts.append(f"locks {node.locks}")
    if node.hits:
        parts.append(f"hits {node.hits}")
    if node.pinned:
        parts.append("pinned")
    if node.namespace:
        parts.append(f"namespace {cut(node.namespace, 16)}")
    return " · ".join([*parts, *_sessions(node.sessions, names)])


def _ghost_detail(ghost: GhostRecord, names: dict[str, str]) -> str:
    what = f"end of node {ghost.node}" if ghost.part else f"node {ghost.node}"
    parts = [f"{what} evicted at {ghost.evicted_seq}", f"{len(ghost.tokens)} tok", f"{len(ghost.blocks)} blk"]
    return " · ".join([*parts, *_sessions(ghost.sessions, names)])


def _sessions(ids: Sequence[str], names: dict[str, str]) -> list[str]:
    shown = [_session(session, names) for session in ids[:3]]
    return [", ".join([*shown, f"+{len(ids) - 3}"] if len(ids) > 3 else shown)] if ids else []


def _session(session: str, names: dict[str, str]) -> str:
    return cut(names.get(session, session), NAME_CELLS)
