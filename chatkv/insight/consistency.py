"""Does a snapshot agree with itself? A file may have been edited or written by something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatkv.insight.nodes import BlockState, Mark
from chatkv.insight.requests import FINISHED, PREEMPTED, REFUSED, RUNNING, WAITING
from chatkv.kvcache.events import ROOT

if TYPE_CHECKING:
    from chatkv.insight.snapshot import Snapshot

STATES = frozenset(state.name.lower() for state in BlockState)
REQUEST_STATES = frozenset({WAITING, RUNNING, PREEMPTED, FINISHED, REFUSED})
MARKS = frozenset(mark.value for mark in Mark)
MAX_BLOCKS = 1 << 24
"""The map of a snapshot is laid out block by block."""


def inconsistency(snapshot: Snapshot) -> str | None:
    """The first contradiction found, in words, or None."""
    config, pool = snapshot.config, snapshot.pool
    if config.block_size < 1 or config.num_blocks < 0:
        return f"{config.num_blocks} blocks of {config.block_size} tokens"
    if config.num_blocks > MAX_BLOCKS:
        return f"{config.num_blocks} blocks are more than the {MAX_BLOCKS} that can be shown"
    if min(pool.free, pool.evictable, pool.protected) < 0:
        return "a pool count is negative"
    if pool.free + pool.evictable + pool.protected != config.num_blocks:
        return f"the pool's counts do not sum to {config.num_blocks} blocks"
    for run in snapshot.block_map:
        if run.state not in STATES or run.count < 1:
            return f"block_map has {run.count} blocks {run.state!r}"
    if sum(run.count for run in snapshot.block_map) != config.num_blocks:
        return f"block_map does not cover {config.num_blocks} blocks"
    return _nodes(snapshot) or _others(snapshot)


def _nodes(snapshot: Snapshot) -> str | None:
    size = snapshot.config.block_size
    known, owned = {ROOT}, set[int]()
    for node in snapshot.nodes:
        if node.id in known:
            return f"node {node.id} is there twice"
        if node.parent not in known:
            return f"node {node.id} comes before its parent {node.parent}, or has none"
        if node.mark not in MARKS:
            return f"node {node.id} has the mark {node.mark!r}"
        if not node.tokens or len(node.blocks) != -(-len(node.tokens) // size):
            return f"node {node.id} has {len(node.tokens)} tokens in {len(node.blocks)} blocks of {size}"
        if node.locks < 0 or node.hits < 0:
            return f"node {node.id} has {node.locks} locks and {node.hits} hits"
        if (wrong := _outside(snapshot, node.blocks)) is not None:
            return f"node {node.id} names block {wrong} of {snapshot.config.num_blocks}"
        before = len(owned)
        owned.update(node.blocks)
        if len(owned) != before + len(node.blocks):
            return f"node {node.id} has a block twice, or one of another node"
        known.add(node.id)
    return None


def _others(snapshot: Snapshot) -> str | None:
    for row in snapshot.rows:
        if (wrong := _outside(snapshot, row.blocks)) is not None:
            return f"row {row.request} names block {wrong} of {snapshot.config.num_blocks}"
        if not 0 <= row.written <= len(row.blocks) * snapshot.config.block_size:
            return f"row {row.request} has {row.written} tokens in {len(row.blocks)} blocks"
    for request in snapshot.requests:
        if request.state not in REQUEST_STATES:
            return f"request {request.id} has the state {request.state!r}"
    for ghost in snapshot.ghosts:
        if ghost.node == ROOT or not ghost.path or ghost.path[-1] != ghost.node:
            return f"the ghost of node {ghost.node} has the path {list(ghost.path)[:8]}"
    return None


def _outside(snapshot: Snapshot, blocks: tuple[int, ...]) -> int | None:
    if blocks and (min(blocks) < 0 or max(blocks) >= snapshot.config.num_blocks):
        return next(block for block in blocks if not 0 <= block < snapshot.config.num_blocks)
    return None
