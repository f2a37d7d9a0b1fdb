"""The map from block hashes to the blocks that hold their tokens: vLLM's ``BlockHashToBlockMap``.

    hash ──▶ first ──also──▶ duplicate ──also──▶ …      (in the order in which they were stored)

A hash only leads to candidates. A block is taken for a prompt's next block only where its tokens are the
prompt's and its parent is the block before, so two prompts whose hashes collide never share a block.
"""

from __future__ import annotations

from collections.abc import Iterator

from chatkv.kvcache.block_hash import Hash
from chatkv.kvcache.errors import IntegrityError
from chatkv.kvcache.events import ROOT


class HashedBlock:
    """A block that can be found; a node of one block to those who watch.

    ``prefix`` names its contents, all tokens from the prompt's start to the block's end: the id of the
    first node with these contents. Duplicates have the same one; ``parent`` is the prefix before.
    """

    __slots__ = ("also", "block", "hash", "id", "last", "namespace", "parent", "prefix", "tokens")

    def __init__(
        self, id: int, block: int, hash: Hash, parent: HashedBlock | None, tokens: bytes, namespace: str
    ) -> None:
        self.id = id
        self.block = block
        self.hash = hash
        self.parent: int = ROOT if parent is None else parent.prefix
        self.prefix: int = id
        self.tokens = tokens
        self.namespace = namespace
        self.last = 0
        """Clock of the last use."""
        self.also: HashedBlock | None = None
        """The next block under the same hash."""

    def __repr__(self) -> str:
        return f"HashedBlock({self.id}, block {self.block}, prefix {self.prefix} after {self.parent})"


class HashIndex:
    """Finding, adding and removing are O(1), but for the number of blocks with the same hash."""

    __slots__ = ("_by_hash",)

    def __init__(self) -> None:
        self._by_hash: dict[Hash, HashedBlock] = {}

    def __len__(self) -> int:
        """How many different hashes there are."""
        return len(self._by_hash)

    def __iter__(self) -> Iterator[HashedBlock]:
        for head in self._by_hash.values():
            yield from _run(head)

    def find(
        self, hash: Hash, parent: HashedBlock | None, tokens: bytes, namespace: str
    ) -> HashedBlock | None:
        """The first stored block that holds ``tokens`` behind ``parent`` (None: at a prompt's start)."""
        before = ROOT if parent is None else parent.prefix
        entry = self._by_hash.get(hash)
        while entry is not None:  # not through _run: this is the loop of every look-up
            if entry.tokens == tokens and entry.parent == before and entry.namespace == namespace:
                return entry
            entry = entry.also
        return None

    def first(self, entry: HashedBlock) -> HashedBlock:
        """The first stored block with the contents of ``entry``: the one that lookups find."""
        return next(self.same(entry))

    def same(self, entry: HashedBlock) -> Iterator[HashedBlock]:
        """All blocks with the contents of ``entry``, itself among them, in the order of storing."""
        return (other for other in _run(self._by_hash.get(entry.hash)) if other.prefix == entry.prefix)

    def add(self, entry: HashedBlock, twin: HashedBlock | None) -> None:
        """``entry`` can be found; ``twin`` is what ``find`` says for its contents."""
        if twin is not None:
            entry.prefix = twin.prefix
        head = self._by_hash.setdefault(entry.hash, entry)
        if head is not entry:
            *_, last = _run(head)
            last.also = entry

    def remove(self, entry: HashedBlock) -> None:
        """``entry`` can't be found any more. Raises IntegrityError where it could not before."""
        head = self._by_hash.get(entry.hash)
        if head is entry:
            if entry.also is None:
                del self._by_hash[entry.hash]
            else:
                self._by_hash[entry.hash] = entry.also
        else:
            before = next((other for other in _run(head) if other.also is entry), None)
            if before is None:
                raise IntegrityError(f"{entry!r} is not in the map")
            before.also = entry.also
        entry.also = None

    def clear(self) -> None:
        """Forget everything."""
        self._by_hash.clear()


def _run(entry: HashedBlock | None) -> Iterator[HashedBlock]:
    while entry is not None:
        yield entry
        entry = entry.also
