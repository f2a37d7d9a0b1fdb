"""``--cache radix``: prefixes are found in a radix tree (SGLang's RadixAttention).

A row is locked into the tree through its ``handle``, the node where its published blocks end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chatkv.kvcache import events as ev
from chatkv.kvcache.cache import Copy, KVCache, Opened, blocks_for
from chatkv.kvcache.errors import IntegrityError
from chatkv.kvcache.events import EventLog, Int32Array
from chatkv.kvcache.node import Node
from chatkv.kvcache.radix import RadixTree
from chatkv.kvcache.results import Found, Inserted
from chatkv.kvcache.table import Row


class RadixCache(KVCache):
    """Rows over a pool and a radix tree. Unless ``strict``, reuse is exact to the token: the matching
    slots of a partly matching block are copied instead of computed.
    """

    kind = "radix"

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        strict: bool = False,
        eviction: str = "lru",
        grain: str = "node",
        log: EventLog | None = None,
    ) -> None:
        super().__init__(num_blocks, block_size, strict=strict, eviction=eviction, grain=grain, log=log)
        self.tree = RadixTree(block_size, eviction=eviction, grain=grain, strict=strict, log=self.log)

    @property
    def evictable(self) -> int:
        """Blocks of unlocked nodes."""
        return self.tree.evictable

    def peek(self, prompt: npt.ArrayLike, namespace: str = "") -> int:
        """How many tokens of ``prompt`` would be reused now, copied ones included."""
        found = self.tree.find(np.ascontiguousarray(prompt, dtype=np.int32)[:-1], namespace)
        return found.tokens + found.extra

    def clear(self) -> bool:
        """Forget every node; False while any row is open."""
        if self.rows:
            return False
        for node in list(self.tree.walk()):
            self.pool.forget(node.blocks)
        self.tree.reset()
        self.log.emit(ev.CacheCleared)
        return True

    def _find(self, row: Row, prompt: Int32Array) -> Found:
        return self.tree.find(prompt[:-1], row.namespace)

    def _fits(self, row: Row, prompt: Int32Array, headroom: int) -> bool:
        found = self._find(row, prompt)
        need = blocks_for(len(prompt), self.block_size) - found.tokens // self.block_size
        # Locking its own prefix takes that prefix from the evictable blocks.
        return need + headroom <= self.free + self.evictable - found.idle

    def _reuse(self, row: Row, prompt: Int32Array) -> Opened:
        found = self._find(row, prompt)
        node = self.tree.settle(found)
        row.handle = node
        self.tree.lock(node, row.request)
        if found.tokens:
            blocks = self.tree.path_blocks(node)
            path = self.tree.path(node)
            for n in path:
                n.hits += 1
            self.pool.share(blocks)
            row.blocks.extend(blocks)
            row.tokens.extend(prompt[: found.tokens])
            row.published = len(blocks)
            self.log.emit(
                ev.PrefixReused,
                request=row.request,
                path=tuple(n.id for n in path),
                blocks=blocks,
                tokens=found.tokens,
            )
        if found.source is None or found.extra == 0:
            return Opened(found.tokens, 0, ())
        copy = self._copy(row, found, found.source)
        if copy is None:
            return Opened(found.tokens, 0, ())
        row.tokens.extend(prompt[found.tokens : found.tokens + copy.tokens])
        return Opened(found.tokens + copy.tokens, copy.tokens, (copy,))

    def _copy(self, row: Row, found: Found, source: Node) -> Copy | None:
        block = int(source.blocks[0])
        guard = self.free == 0
        if guard:  # room must not come from the very node that is to be copied
            self.tree.lock(source, row.request)
        grown = self.grow(row.request, found.tokens + found.extra)
        if guard:
            self.tree.unlock(source, row.request)
        if not grown:
            return None
        target = int(row.blocks.array[-1])
        self.log.emit(
            ev.SlotsCopied,
            request=row.request,
            node=source.id,
            source=block,
            target=target,
            tokens=found.extra,
        )
        self.tree.touch(source)
        return Copy(block, target, found.extra)

    def _evict(self, num_blocks: int, request: int | None) -> None:
        self.pool.forget(self.tree.evict(num_blocks, request).blocks)

    def _publish(self, row: Row) -> None:
        size = self.block_size
        full = len(row.tokens) // size
        start = row.published
        if full == start:
            return
        assert row.handle is not None
        if start * size <= row.prompt_tokens < full * size:
            row.handle.owner = None  # the answer starts a node of its own
        blocks = row.blocks.array[start:full].copy()
        stored = self.tree.store(
            row.handle, row.tokens.array[start * size : full * size], blocks, row.request
        )
        self._settle_blocks(row, start, blocks, stored)
        if stored.node is not row.handle:
            self.tree.lock(stored.node, row.request)
            self.tree.unlock(row.handle, row.request)
            row.handle = stored.node

    def _settle_blocks(self, row: Row, start: int, blocks: Int32Array, stored: Inserted) -> None:
        """Give the tree what it took, and point the row at what was there before."""
        present = stored.present // self.block_size
        self.pool.keep(blocks[present:])
        row.published = start + len(blocks)
        if present:
            theirs = self.tree.path_blocks(stored.node)[start : start + present].copy()
            self.pool.share(theirs)
            row.blocks.array[start : start + present] = theirs
            old = blocks[:present]
            self.log.emit(ev.RowRepointed, request=row.request, logical=start, old=old, new=theirs)
            self.pool.drop(old)
            self.log.emit(ev.BlocksFreed, request=row.request, blocks=old, reason="duplicate")
        if len(stored.dropped):
            self.pool.forget(stored.dropped)

    def _keep_tail(self, row: Row) -> None:
        written, size = len(row.tokens), self.block_size
        rest = written % size
        if self.strict or rest == 0 or row.handle is None:
            return
        block = int(row.blocks.array[row.published])
        stored = self.tree.store_tail(
            row.handle, row.tokens.array[written - rest : written], block, row.request
        )
        if stored.present == 0:
            self.pool.keep(row.blocks.array[row.published : row.published + 1])
            row.published += 1
            # The tail itself is never locked: the row ends here.
        if len(stored.dropped):
            self.pool.forget(stored.dropped)

    def _unlock(self, row: Row) -> None:
        if row.handle is not None:
            self.tree.unlock(row.handle, row.request)

    def _check(self) -> None:
        size = self.block_size
        expected: dict[int, int] = {}
        for row in self.rows.values():
            assert row.handle is not None
            blocks = self.tree.path_blocks(row.handle)
            if not np.array_equal(blocks, row.blocks.array[: row.published]):
                raise IntegrityError(f"request {row.request}: its row does not start with its locked path")
            for node in self.tree.path(row.handle):
                expected[node.id] = expected.get(node.id, 0) + 1
        seen = np.zeros(self.num_blocks, dtype=bool)
        tokens = blocks_total = evictable = 0
        leaves = set()
        for node in self.tree.walk():
            name = f"node {node.id}"
            if node.locks != expected.get(node.id, 0):
                raise IntegrityError(
                    f"{name} has {node.locks} locks, {expected.get(node.id, 0)} rows hold it"
                )
            tail = node.is_tail(size)
            if len(node.tokens) == 0 or (len(node.tokens) % size and not tail):
                raise IntegrityError(f"{name} holds {len(node.tokens)} tokens: not whole blocks")
            if tail and (self.strict or node.children):
                raise IntegrityError(
                    f"{name} is a partly filled block but not a leaf, or the cache is strict"
                )
            if len(node.blocks) != blocks_for(len(node.tokens), size):
                raise IntegrityError(f"{name} holds {len(node.tokens)} tokens in {len(node.blocks)} blocks")
            if node.parent is None or node.parent.children.get(node.key(size)) is not node:
                raise IntegrityError(f"{name} is not held by its parent under its own key")
            if self.tree.ordered and sorted(node.children) != node.order:
                raise IntegrityError(f"{name}: the sorted keys differ from the children")
            if seen[node.blocks].any():
                raise IntegrityError(f"{name} shares a block with another node")
            seen[node.blocks] = True
            tokens += len(node.tokens)
            blocks_total += len(node.blocks)
            if node.locks == 0:
                evictable += len(node.blocks)
                if not node.children:
                    leaves.add(node.id)
        if not np.array_equal(seen, self.pool.cached):
            raise IntegrityError("the blocks of the tree differ from those marked as cached")
        counted = (self.tree.total_tokens, self.tree.total_blocks, self.tree.evictable)
        if counted != (tokens, blocks_total, evictable):
            raise IntegrityError(f"the tree counts {counted}, it holds {(tokens, blocks_total, evictable)}")
        if leaves != self.tree.leaves.ids():
            raise IntegrityError("the evictable leaves differ from those recomputed")
