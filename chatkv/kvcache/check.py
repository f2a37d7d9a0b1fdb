"""Does a radix tree contradict itself? Everything it counts, counted again from scratch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chatkv.kvcache.errors import IntegrityError
from chatkv.kvcache.node import Node
from chatkv.kvcache.radix import RadixTree


def check_tree(tree: RadixTree, num_blocks: int) -> npt.NDArray[np.bool_]:
    """Which of ``num_blocks`` blocks the tree holds, bool [num_blocks]. Raises IntegrityError."""
    seen = np.zeros(num_blocks, dtype=bool)
    tokens = blocks = evictable = 0
    leaves, pinned = set(), set()
    for namespace, root in tree.roots.items():
        if not root.children or root.namespace != namespace:
            raise IntegrityError(f"the root of namespace {namespace!r} has no children or another name")
        _check_order(tree, root)
    for node in tree.walk():
        _check_node(tree, node)
        if seen[node.blocks].any() or len(np.unique(node.blocks)) != len(node.blocks):
            raise IntegrityError(f"node {node.id} holds a block twice, or shares it with another node")
        seen[node.blocks] = True
        tokens += len(node.tokens)
        blocks += len(node.blocks)
        if node.pinned:
            pinned.add(node.id)
        if node.locks == 0:
            evictable += len(node.blocks)
            if not node.children:
                leaves.add(node.id)
    counted = (tree.total_tokens, tree.total_blocks, tree.evictable)
    if counted != (tokens, blocks, evictable):
        raise IntegrityError(f"the tree counts {counted}, it holds {(tokens, blocks, evictable)}")
    if leaves != tree.leaves.ids():
        raise IntegrityError("the evictable leaves differ from those recomputed")
    if pinned != set(tree.pinned):
        raise IntegrityError("the pinned nodes differ from those recomputed")
    return seen


def _check_node(tree: RadixTree, node: Node) -> None:
    name, size, tail, parent = f"node {node.id}", tree.block_size, node.is_tail(tree.block_size), node.parent
    if len(node.tokens) == 0 or (len(node.tokens) % size and not tail):
        raise IntegrityError(f"{name} holds {len(node.tokens)} tokens: not whole blocks")
    if tail and (node.children or not tree.tails):
        raise IntegrityError(f"{name} is a partly filled block but not a leaf, or the cache is strict")
    if len(node.blocks) != -(-len(node.tokens) // size):
        raise IntegrityError(f"{name} holds {len(node.tokens)} tokens in {len(node.blocks)} blocks")
    if parent is None or parent.children.get(node.key(size)) is not node:
        raise IntegrityError(f"{name} is not held by its parent under its own key")
    if node.start != parent.end:
        raise IntegrityError(f"{name} begins behind {node.start} tokens, its parent ends behind {parent.end}")
    if parent.namespace != node.namespace:
        raise IntegrityError(f"{name} is in namespace {node.namespace!r}, its parent is not")
    if node.locks < 0 or (parent.parent is not None and parent.locks < node.locks):
        raise IntegrityError(f"{name} has {node.locks} locks, its parent {parent.locks}")
    if parent.parent is not None and parent.priority < node.priority:
        raise IntegrityError(f"{name} has priority {node.priority}, its parent {parent.priority}")
    _check_order(tree, node)


def _check_order(tree: RadixTree, node: Node) -> None:
    if tree.ordered and sorted(node.children) != node.order:
        raise IntegrityError(f"node {node.id}: the sorted keys differ from the children")
