"""Is a mirror in order? Everything that must hold, counted again from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chatkv.insight.blockmap import FREE, PRIVATE
from chatkv.kvcache.events import ROOT

if TYPE_CHECKING:
    from chatkv.insight.nodes import Node
    from chatkv.insight.state import MirrorState


def violations(mirror: MirrorState) -> list[str]:
    """What does not hold, in words; empty when all is well."""
    return [*mirror.faults, *_tree(mirror), *_blocks(mirror), *pool(mirror), *rows(mirror)]


def _tree(mirror: MirrorState) -> list[str]:
    out = []
    seen = tokens = 0
    stack = [ROOT]
    while stack and seen <= len(mirror.nodes):
        node = mirror.nodes.get(stack.pop())
        if node is None:
            continue
        seen += 1
        tokens += len(node.tokens)
        stack += node.children
        out += one_node(mirror, node)
    if seen > len(mirror.nodes):
        out.append("a node hangs under two others, or under itself")
    elif seen != len(mirror.nodes):
        out.append(f"{len(mirror.nodes) - seen} nodes can't be reached from the root")
    elif tokens != mirror.tokens:
        out.append(f"counted {tokens} tokens; kept {mirror.tokens}")
    return out


def one_node(mirror: MirrorState, node: Node) -> list[str]:
    """What does not hold of ``node`` and its children, whatever the rest is like."""
    out = []
    below, counted = mirror.below, 1
    for id in node.children:
        counted += below.get(id, 0)
        child = mirror.nodes.get(id)
        if child is None:
            out.append(f"node {node.id} names a child {id}, which does not exist")
            continue
        if child.parent != node.id:
            out.append(f"node {child.id} hangs under {node.id} but names {child.parent}")
        # In a hash cache a row may hold a block's duplicate instead, and locks each node by itself.
        if mirror.cache != "hash" and node.id != ROOT and child.locks > node.locks:
            out.append(f"node {child.id} has {child.locks} locks, {node.id} above it {node.locks}")
    if below.get(node.id) != counted:
        out.append(f"counted {counted} nodes at and below node {node.id}; kept {below.get(node.id)}")
    if node.locks < 0 or (node.id == ROOT and node.locks):
        out.append(f"node {node.id} has {node.locks} locks")
    if node.id != ROOT and not len(node.tokens):
        out.append(f"node {node.id} has no tokens")
    if len(node.blocks) != -(-len(node.tokens) // mirror.block_size):
        out.append(f"node {node.id} has {len(node.tokens)} tokens in {len(node.blocks)} blocks")
    if node.is_tail and (node.children or len(node.blocks) > 1):
        out.append(f"node {node.id} is a tail with children or several blocks")
    return out


def owned(mirror: MirrorState, node: Node) -> list[str]:
    """Which of the node's blocks are not kept as its own."""
    owner = mirror._blocks.owner[node.blocks]
    wrong = node.blocks[owner != node.id].tolist()
    return [
        f"block {block} is kept as {mirror._blocks.owner[block]}, the tree says {node.id}" for block in wrong
    ]


def pool(mirror: MirrorState) -> list[str]:
    """Do the pool's counts agree with the blocks, and with each other?"""
    out = []
    free = int((mirror._blocks.owner == FREE).sum())
    if free != mirror.free:
        out.append(f"counted {free} free blocks; kept {mirror.free}")
    if mirror.free + mirror.evictable + mirror.protected != mirror.num_blocks or mirror.protected < 0:
        out.append("free + evictable + protected is not the pool's size")
    return out


def _blocks(mirror: MirrorState) -> list[str]:
    out = []
    owner = mirror._blocks.owner
    expected = np.full(mirror.num_blocks, FREE, np.int64)
    holders = np.zeros(mirror.num_blocks, np.int64)
    evictable = 0
    for node in mirror.nodes.values():
        expected[node.blocks] = node.id
        np.add.at(holders, node.blocks, 1)
        evictable += 0 if node.locks else len(node.blocks)
    for block in np.flatnonzero(holders > 1).tolist():
        out.append(f"block {block} is in {holders[block]} nodes")
    private = owner == PRIVATE
    for block in np.flatnonzero((owner != expected) & ~(private & (expected == FREE))).tolist():
        out.append(f"block {block} is kept as {owner[block]}, the tree says {expected[block]}")
    if evictable != mirror.evictable:
        out.append(f"counted {evictable} evictable blocks; kept {mirror.evictable}")
    return out


def rows(mirror: MirrorState) -> list[str]:
    """Do open rows name blocks that are theirs or locked for them?"""
    out = []
    privates: set[int] = set()
    for row in mirror.rows.values():
        if len(set(row.blocks)) != len(row.blocks):
            out.append(f"row {row.request} names a block twice")
        if row.written > len(row.blocks) * mirror.block_size:
            out.append(f"row {row.request} has {row.written} tokens in {len(row.blocks)} blocks")
        for block in row.blocks:
            owner = int(mirror._blocks.owner[block])
            if owner == FREE:
                out.append(f"row {row.request} names block {block}, which is free")
            elif owner == PRIVATE and block in privates:
                out.append(f"private block {block} is in two rows")
            elif owner == PRIVATE:
                privates.add(block)
            elif owner not in mirror.nodes:
                out.append(f"row {row.request} names block {block} of node {owner}, which does not exist")
            elif not mirror.nodes[owner].locks:
                out.append(f"row {row.request} names block {block} of node {owner}, which is not locked")
    return out
