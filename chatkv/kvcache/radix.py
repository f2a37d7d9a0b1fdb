"""The radix tree over token ids (RadixAttention: SGLang, arXiv 2312.07104, section 3).

Finds the longest cached prefix of a prompt and the blocks that hold its KV. Page-aligned: nodes are
cut only between blocks, so a node owns whole blocks. Unless ``strict``, a leaf may be a *tail*, one
partly filled block, and a lookup also says which block holds the next few tokens, to be copied.

The tree owns structure, locks and order of eviction (``RadixLocks``). It owns no pool: blocks come in with
``insert`` or ``store`` and leave through ``evict``, and whoever called does the accounting.
"""

from __future__ import annotations

import numpy as np

from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.node import EMPTY, Node, common_prefix, token_data
from chatkv.kvcache.radix_locks import RadixLocks
from chatkv.kvcache.results import Found, Inserted, Match


class RadixTree(RadixLocks):
    """See the module. Sizes are counted in blocks; ``block_size`` in tokens.

    Raises ValueError for a block size below 1, an unknown strategy or an unknown grain.
    """

    # --- looking up -------------------------------------------------------------------------------

    def find(self, tokens: Int32Array, namespace: str = "") -> Found:
        """The longest cached prefix of ``tokens`` (int32 [n]), changing nothing, not even recency."""
        size = self.block_size
        path, at, child = self._descend(namespace, token_data(tokens))
        idle = sum(len(node.blocks) for node in path if node.locks == 0)
        if child is None:
            node = path[-1]
            source, extra = node.closest_child(tokens[at:], size) if self.ordered else (None, 0)
            return Found(node, node.num_tokens, at, idle, source, extra)
        shared = common_prefix(child.tokens, tokens[at:])
        whole = shared // size * size
        if child.locks == 0:
            idle += whole // size
        extra = shared - whole
        return Found(child, whole, at + whole, idle, child if extra else None, extra)

    def match(self, tokens: Int32Array, namespace: str = "") -> Match:
        """The longest cached prefix of ``tokens``; a node that it ends in is split there.

        Every node of the matched path was used now (and only those).
        """
        path, at, child = self._descend(namespace, token_data(tokens))
        if child is not None:  # at least its first block matches
            whole = common_prefix(child.tokens, tokens[at:]) // self.block_size * self.block_size
            path.append(self._split(child, whole))
            at += whole
        node = path[-1]
        self._used(node, hit=False)
        blocks = np.concatenate([n.blocks for n in path]) if len(path) > 1 else EMPTY
        return Match(node, blocks, at)

    def _descend(self, namespace: str, data: bytes) -> tuple[list[Node], int, Node | None]:
        """From the root along ``data``: the nodes that match whole, root first; how many tokens they
        hold; and the child, if any, of which only a beginning of one block or more matches.
        """
        width, end = 4 * self.block_size, len(data)
        node = self.root(namespace)
        path = [node]
        at = 0  # in bytes
        while end - at >= width and (child := node.children.get(data[at : at + width])) is not None:
            if not data.startswith(child.data, at):
                return path, at // 4, child
            at += len(child.data)
            node = child
            path.append(node)
        return path, at // 4, None

    def settle(self, found: Found) -> Node:
        """The node that ends exactly where ``found`` ends, split off where needed."""
        return self.part(found.node, found.inside)

    # --- storing ----------------------------------------------------------------------------------

    def insert(
        self, tokens: Int32Array, blocks: Int32Array, namespace: str = "", priority: int = 0
    ) -> Inserted:
        """Store a whole sequence from its start; what is there already keeps its own blocks.

        Only whole blocks are taken. Nodes passed on the way count a hit and take the larger priority.
        Raises ValueError where there are fewer blocks than whole blocks of tokens.
        """
        size = self.block_size
        n = len(tokens) // size * size
        if len(blocks) < n // size:
            raise ValueError(f"{len(tokens)} tokens need {n // size} blocks of {size}, got {len(blocks)}")
        result = self.store(self.root(namespace), tokens[:n], blocks[: n // size])
        old = result.node.parent if result.present < n else result.node
        if old is not None and old.parent is not None:
            self._used(old, hit=True)
        if priority > 0:
            for node in self.path(result.node):
                node.priority = max(node.priority, priority)
            self.leaves.changed(result.node)
        return result

    def store(
        self,
        start: Node,
        tokens: Int32Array,
        blocks: Int32Array,
        request: int | None = None,
        *,
        behind: int | None = None,
        cut: bool = True,
    ) -> Inserted:
        """Put whole blocks of ``tokens`` below ``start``; what is there already keeps its own blocks.

        They come ``behind`` so many tokens of the path to ``start``: at its end unless told otherwise. A leaf
        that ``request`` stored grows in place. Unless ``cut``, a run that is there already and ends inside a
        node leaves that node whole.
        """
        size, data = self.block_size, token_data(tokens)
        width, end, at = 4 * size, len(data), 0  # in bytes
        node = start if behind is None else self.reaching(start, behind)
        if behind is not None and behind < node.end:
            inside = 4 * (behind - node.start)
            if not cut and node.data.startswith(data, inside):
                return Inserted(node, len(tokens), EMPTY)
            at = 4 * (common_prefix(node.tokens[inside // 4 :], tokens) // size * size)
            if inside + at < len(node.data):
                node = self._split(node, (inside + at) // 4)
        if node.parent is None:  # one that went with its last child means the namespace's present root
            node = self.root(start.namespace)
        while at < end:
            key = data[at : at + width]
            child = node.children.get(key)
            if child is None:
                dropped, pinned = self._supersede(node, key, request) if self.tails else (EMPTY, False)
                put = self._add if pinned else self._put
                node = put(node, data[at:], blocks[at // width :].copy(), request)
                if pinned:  # the block that took the tail's place, and no more, so that the bound holds
                    self.pin(node if len(node.blocks) == 1 else self._split(node, size), True)
                return Inserted(node, at // 4, dropped)
            if data.startswith(child.data, at):
                node = child
            elif not cut and child.data.startswith(data[at:]):
                return Inserted(child, len(tokens), EMPTY)
            else:
                node = self._split(child, common_prefix(child.tokens, tokens[at // 4 :]) // size * size)
            at += len(node.data)
        return Inserted(node, at // 4, EMPTY)

    def store_tail(
        self,
        parent: Node,
        tokens: Int32Array,
        block: int,
        request: int | None = None,
        *,
        behind: int | None = None,
    ) -> Inserted:
        """Keep a partly filled block below ``parent``, unless its tokens are there already (``present``).

        It comes ``behind`` so many tokens, as in ``store``.
        """
        key = token_data(tokens)
        if behind is not None:
            parent = self.reaching(parent, behind)
            if behind < parent.end:
                if parent.data.startswith(key, 4 * (behind - parent.start)):
                    return Inserted(parent, len(tokens), EMPTY)
                parent = self._split(parent, behind - parent.start)
        if parent.parent is None:
            parent = self.root(parent.namespace)
        if (child := parent.covering(key)) is not None:
            return Inserted(child, len(tokens), EMPTY)
        dropped, pinned = self._supersede(parent, key, request)
        node = self._add(parent, key, np.array([block], dtype=np.int32), request)
        if pinned:
            self.pin(node, True)
        return Inserted(node, 0, dropped)

    def _supersede(self, parent: Node, key: bytes, request: int | None) -> tuple[Int32Array, bool]:
        """Drop the tail whose tokens a new child with ``key`` will hold as well.

        Returns its block and whether it was pinned.
        """
        tail = parent.tail_within(key)
        if tail is None or tail not in self.leaves:
            return EMPTY, False
        pinned = tail.pinned
        return self._cut(tail, 0, "superseded", 1, request)[0], pinned
