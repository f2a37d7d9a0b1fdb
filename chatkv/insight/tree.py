"""The mirror's tree: nodes, who hangs where, locks, and a dry prefix match."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import islice

import numpy as np

from chatkv.insight.counts import Counts
from chatkv.insight.nodes import Node
from chatkv.kvcache.events import ROOT, Int32Array

_NOTHING = np.zeros(0, np.int32)
_NOTHING.flags.writeable = False


class Tree:
    """``nodes`` by id. Unknown ids raise KeyError, before anything has changed."""

    def __init__(self, block_size: int, strict: bool) -> None:
        self.block_size = block_size
        self.strict = strict
        root = Node(ROOT, -1, _NOTHING, _NOTHING, "", None, 0, 0, 0, 0)
        self.nodes: dict[int, Node] = {ROOT: root}
        self.counts = Counts(self.nodes)
        self.tokens = 0
        """Of all nodes together."""
        # Whole-block children by (parent, namespace, first block). Siblings share a first block only where
        # a hash cache keeps duplicates: the first of them is meant.
        self._by_block: dict[tuple[int, str, bytes], int] = {}
        self.evictable = 0
        """Blocks of nodes that nobody locks."""

    def up(self, node: int) -> Iterator[Node]:
        """The node and all above it, without the root."""
        while node != ROOT:
            found = self.nodes[node]
            yield found
            node = found.parent

    def path(self, node: int) -> list[int]:
        """Ids from the root's child down to ``node``; empty for the root."""
        return [found.id for found in self.up(node)][::-1]

    def add(self, node: Node) -> None:
        """Hang a leaf under ``node.parent``, behind its other children."""
        self.nodes[node.parent].children.append(node.id)
        self.nodes[node.id] = node
        self.counts.add(node.id, node.parent)
        self.tokens += len(node.tokens)
        node.is_tail = len(node.tokens) % self.block_size != 0
        self.evictable += len(node.blocks)
        if (key := self._key(node)) is not None:
            self._by_block.setdefault(key, node.id)

    def renew(self) -> None:
        """Have ``nodes`` be another dict: whoever follows it looks at all of it anew."""
        self.nodes = self.nodes.copy()
        self.counts = self.counts.copy(self.nodes)

    def succeed(self, node: Node, heir: Node) -> None:
        """``heir``, a sibling with the same tokens, takes what hung under ``node``; a match finds it now.

        Raises ValueError for any other node.
        """
        if heir is node or self._key(heir) is None or self._key(heir) != self._key(node):
            raise ValueError(f"node {heir.id} does not stand for node {node.id}")
        for child in (self.nodes[child] for child in node.children):
            key = self._key(child)
            child.parent = heir.id
            self.counts.move(child.id, node.id, heir.id)
            if key is not None and self._by_block.get(key) == child.id:
                del self._by_block[key]
                self._index(child)
        heir.children += node.children
        node.children = []
        self._index(heir)

    def extend(self, node: Node, tokens: Int32Array, blocks: Int32Array) -> None:
        """The leaf grows at its end."""
        node.tokens = np.concatenate((node.tokens, tokens))
        node.blocks = np.concatenate((node.blocks, blocks))
        self.tokens += len(tokens)
        node.is_tail = len(node.tokens) % self.block_size != 0
        self.evictable += 0 if node.locks else len(blocks)

    def lock(self, node: Node, count: int) -> None:
        """``count`` (1 or -1) more locks on this one node."""
        before, node.locks = node.locks, node.locks + count
        if before <= 0 < node.locks:
            self.evictable -= len(node.blocks)
        elif node.locks <= 0 < before:
            self.evictable += len(node.blocks)

    def split(self, node: Node, upper: Node, at: int) -> None:
        """``upper`` takes the first ``at`` tokens and ``node``'s place; ``node`` hangs under it."""
        siblings = self.nodes[node.parent].children
        siblings[siblings.index(node.id)] = upper.id
        self.nodes[upper.id] = upper
        blocks = at // self.block_size
        upper.parent, upper.children = node.parent, [node.id]
        upper.tokens, upper.blocks = node.tokens[:at], node.blocks[:blocks]
        self._index(upper)
        node.parent, node.tokens, node.blocks = upper.id, node.tokens[at:], node.blocks[blocks:]
        self.counts.insert(upper.id, node.id, upper.parent)
        self._index(node)

    def trim(self, node: Node, tokens: int, blocks: int) -> Int32Array:
        """The leaf loses its last tokens and blocks; the tokens are returned."""
        keep = len(node.tokens) - tokens
        gone = node.tokens[keep:]
        self.tokens -= len(gone)
        node.tokens, node.blocks = node.tokens[:keep], node.blocks[: len(node.blocks) - blocks]
        node.is_tail = len(node.tokens) % self.block_size != 0
        self.evictable -= 0 if node.locks else blocks
        return gone

    def remove(self, node: Node) -> None:
        """A leaf leaves the tree."""
        self.nodes[node.parent].children.remove(node.id)
        del self.nodes[node.id]
        self.counts.remove(node.id, node.parent)
        self.tokens -= len(node.tokens)
        self.evictable -= 0 if node.locks else len(node.blocks)
        if (key := self._key(node)) is not None and self._by_block.get(key) == node.id:
            del self._by_block[key]

    def match(self, tokens: Sequence[int] | Int32Array, namespace: str = "") -> tuple[list[int], int]:
        """The nodes that a prompt would start with, root's child first, and how many tokens they share.

        Nothing is touched. The last node may be shared in part. When ``strict``, only whole blocks
        count. To preview a request pass its prompt without the last token, which is always computed.
        """
        wanted = np.asarray(tokens, np.int32)
        path: list[int] = []
        matched, parent = 0, ROOT
        while matched < len(wanted):
            node, shared = self._best_child(parent, namespace, wanted[matched:])
            if node is None or shared == 0:
                break
            path.append(node.id)
            matched += shared
            if shared < len(node.tokens):
                break
            parent = node.id
        return path, matched

    def copying(self, step: int) -> Generator[None, None, Tree]:
        """An independent copy, made ``step`` nodes at a time; the tree must not change meanwhile."""
        twin = Tree(self.block_size, self.strict)
        nodes = iter(self.nodes.items())
        while part := dict(islice(nodes, step)):
            twin.nodes.update((id, node.copy()) for id, node in part.items())
            yield
        twin.counts = self.counts.copy(twin.nodes)
        twin._by_block, twin.evictable, twin.tokens = self._by_block.copy(), self.evictable, self.tokens
        return twin

    def _best_child(self, parent: int, namespace: str, wanted: Int32Array) -> tuple[Node | None, int]:
        found = self._by_block.get((parent, namespace, wanted[: self.block_size].tobytes()))
        if found is not None:
            node = self.nodes[found]
            shared = _common(node.tokens, wanted)
            return node, shared // self.block_size * self.block_size if self.strict else shared
        if self.strict:
            return None, 0
        best: tuple[Node | None, int] = None, 0
        for child in self.nodes[parent].children:
            node = self.nodes[child]
            if node.namespace == namespace and node.tokens[0] == wanted[0]:
                shared = _common(node.tokens, wanted)
                if shared > best[1]:
                    best = node, shared
        return best

    def _key(self, node: Node) -> tuple[int, str, bytes] | None:
        if len(node.tokens) < self.block_size:
            return None
        return node.parent, node.namespace, node.tokens[: self.block_size].tobytes()

    def _index(self, node: Node) -> None:
        if (key := self._key(node)) is not None:
            self._by_block[key] = node.id


def _common(a: Int32Array, b: Int32Array) -> int:
    """Length of the common prefix."""
    size = min(len(a), len(b))
    differ = np.flatnonzero(a[:size] != b[:size])
    return int(differ[0]) if len(differ) else size
