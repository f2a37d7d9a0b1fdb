"""Short ways to build trees and to say what they hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.node import Node
from chatkv.kvcache.radix import RadixTree
from chatkv.kvcache.results import Inserted

Shape = dict[tuple[int, ...], "Shape"]


def ids(*values: int) -> Int32Array:
    return np.array(values, dtype=np.int32)


class Slots:
    """Hands out block ids that were never used before."""

    def __init__(self) -> None:
        self.next = 0

    def take(self, n: int) -> Int32Array:
        self.next += n
        return np.arange(self.next - n, self.next, dtype=np.int32)


def put(
    tree: RadixTree, slots: Slots, tokens: Sequence[int], namespace: str = "", priority: int = 0
) -> Inserted:
    """Insert ``tokens`` with fresh blocks."""
    blocks = slots.take(len(tokens) // tree.block_size)
    return tree.insert(ids(*tokens), blocks, namespace, priority)


def shape(tree: RadixTree, namespace: str = "") -> Shape:
    """The tree of a namespace as nested dicts: ``{tokens of a node: its children}``."""

    def below(node: Node) -> Shape:
        return {tuple(child.tokens.tolist()): below(child) for child in node.children.values()}

    return below(tree.root(namespace))


def node_of(tree: RadixTree, tokens: Sequence[int]) -> Node:
    """The one node that holds exactly ``tokens``."""
    (found,) = [node for node in tree.walk() if node.tokens.tolist() == list(tokens)]
    return found


def gone(tree: RadixTree, before: dict[int, list[int]]) -> list[list[int]]:
    """Tokens of the nodes in ``before`` (``snapshot``) that are no longer in the tree."""
    left = {node.id for node in tree.walk()}
    return [tokens for id, tokens in before.items() if id not in left]


def snapshot(tree: RadixTree) -> dict[int, list[int]]:
    """Every node's tokens by id."""
    return {node.id: node.tokens.tolist() for node in tree.walk()}
