"""The chained hashes of blocks, computed here from the tokens that the records carry.

No record has a hash: it follows from the tokens, in a radix cache too, which never computes one. They are
those of a hash cache and of the KV-event wire (``kvcache/block_hash.py``). Only a full block of the tree
has one: of a private block nobody knows the tokens yet.
"""

from __future__ import annotations

from chatkv.insight.mirror import Mirror
from chatkv.insight.nodes import Row
from chatkv.kvcache.block_hash import Hash, block_hash
from chatkv.kvcache.events import ROOT


def hash_of(mirror: Mirror, block: int) -> Hash | None:
    """The hash of physical block ``block``; None where it has none. Costs a hash for each block before it."""
    owner = mirror.block_node(block)
    if owner is None:
        return None
    size, parent = mirror.block_size, None
    for node in (mirror.nodes[id] for id in mirror.path(owner)):
        for at in range(len(node.tokens) // size):
            parent = block_hash(parent, node.tokens[at * size : (at + 1) * size], node.namespace)
            if node.id == owner and node.blocks[at] == block:
                return parent
    return None


class RowHashes:
    """The hashes of one row's blocks: each is computed once, however often the row is looked at."""

    def __init__(self) -> None:
        self._of: tuple[Mirror | None, int] = (None, -1)
        self._blocks: list[int] = []
        self._hashes: list[Hash] = []
        """Of the first blocks, as far as they are known."""

    def of(self, mirror: Mirror, row: Row) -> list[Hash | None]:
        """One for each of ``row.blocks``; ``row`` is one of ``mirror``, open or closed."""
        if self._of != (mirror, row.request):
            self._of, self._hashes = (mirror, row.request), []
        same = 0
        for before, now, _ in zip(self._blocks, row.blocks, self._hashes, strict=False):
            if before != now:
                break
            same += 1
        self._blocks = row.blocks.copy()
        del self._hashes[same:]
        self._go_on(mirror, row)
        return [*self._hashes, *[None] * (len(row.blocks) - len(self._hashes))]

    def _go_on(self, mirror: Mirror, row: Row) -> None:
        size = row.block_size
        node, places = ROOT, dict[int, int]()
        for block in row.blocks[len(self._hashes) :]:
            owner = mirror.block_node(block)
            if owner is None:
                return
            if owner != node:
                node = owner
                places = {found: at for at, found in enumerate(mirror.nodes[node].blocks.tolist())}
            at = places[block]
            tokens = mirror.nodes[node].tokens[at * size : (at + 1) * size]
            if len(tokens) < size:
                return
            parent = self._hashes[-1] if self._hashes else None
            self._hashes.append(block_hash(parent, tokens, row.namespace))
