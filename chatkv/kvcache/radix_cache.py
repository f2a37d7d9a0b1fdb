"""``--cache radix``: prefixes are found in a radix tree (SGLang's RadixAttention).

A row is locked into the tree through its ``handle``, the node in which its published blocks end. They end
inside it where the row says what is cached already: cutting there would leave a node for every block of an
answer given once more. So a lock may hold more than is used; where room is short it is tightened.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chatkv.kvcache import events as ev
from chatkv.kvcache.cache import Copy, KVCache, Opened, blocks_for, token_ids
from chatkv.kvcache.check import check_tree
from chatkv.kvcache.errors import CacheError, IntegrityError
from chatkv.kvcache.events import EventLog, Int32Array
from chatkv.kvcache.node import Node, data_tokens
from chatkv.kvcache.radix import RadixTree
from chatkv.kvcache.results import Found, Inserted, Lookup
from chatkv.kvcache.table import Row


class RadixCache(KVCache):
    """Rows over a pool and a radix tree. Unless ``strict``, reuse is exact to the token: the matching
    slots of a partly matching block are copied instead of computed.

    ``max_pinned``: the largest part of the pool, 0…1, that pins may hold back from eviction.
    Raises ValueError for a bad option.
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
        max_pinned: float = 0.5,
    ) -> None:
        if not 0 <= max_pinned <= 1:
            raise ValueError(f"max_pinned is a part of the pool from 0 to 1, got {max_pinned}")
        super().__init__(num_blocks, block_size, strict=strict, eviction=eviction, grain=grain, log=log)
        self.tree = RadixTree(block_size, eviction=eviction, grain=grain, strict=strict, log=self.log)
        self.max_pinned = max_pinned

    @property
    def evictable(self) -> int:
        """Blocks of unlocked nodes."""
        return self.tree.evictable

    def peek(
        self,
        prompt: npt.ArrayLike,
        namespace: str = "",
        session: str = "",
        lookup: Lookup | None = None,
    ) -> int:
        """How many tokens of ``prompt`` would be reused now, copied ones included."""
        found = self._find(token_ids(prompt), namespace, Lookup() if lookup is None else lookup)
        return found.tokens + (0 if self.strict else found.extra)

    def locate(self, tokens: npt.ArrayLike, namespace: str = "", session: str = "") -> tuple[int, Int32Array]:
        """The cached beginning of ``tokens`` and its blocks, the last one maybe in part."""
        found = self.tree.find(token_ids(tokens), namespace)
        held = found.tokens + found.extra
        blocks = self.tree.path_blocks(found.node)
        if found.source is not None and found.source is not found.node:
            blocks = np.concatenate([blocks, found.source.blocks[:1]])
        return held, blocks[: blocks_for(held, self.block_size)]

    def clear(self) -> bool:
        """Forget every node; False while any row is open."""
        if self.rows:
            return False
        for node in list(self.tree.walk()):
            self.pool.forget(node.blocks)
        self.tree.reset()
        if self._ledger is not None:
            self._ledger.clear()
        self.log.emit(ev.CacheCleared)
        return True

    def pin(self, node_id: int, pinned: bool = True) -> None:
        """Evict this node, and with it those above it, after all that are not pinned; or no longer so.

        A pin orders eviction, it does not forbid it. It covers what the node holds now, and moves along
        when a tail is superseded. Raises CacheError, changing nothing, where there is no such node, or
        where pins would hold back more than ``max_pinned`` of the pool.
        """
        node = self.tree.node(node_id)
        limit = int(self.max_pinned * self.num_blocks)
        if pinned and (held := self.tree.held_by_pins(node)) > limit:
            raise CacheError(
                f"can't pin node {node_id}: {held} of {self.num_blocks} blocks would be held back, at most "
                f"{limit} may be; unpin another node first"
            )
        self.tree.pin(node, pinned)

    def _known(self, prompt: Int32Array, namespace: str, session: str) -> int:
        found = self.tree.find(prompt, namespace)
        return found.tokens + found.extra

    def _known_of(self, row: Row, prompt: Int32Array, lookup: Lookup) -> int:
        found: Found = lookup.found
        return found.tokens + found.extra + self.tree.holds_next(found, prompt)

    def _find(self, prompt: Int32Array, namespace: str, lookup: Lookup) -> Found:
        """What the prompt, an empty one too, may reuse; ``lookup`` has it afterwards."""
        if not lookup.current(self.log.clock, len(prompt)):
            lookup.set(self.log.clock, len(prompt), self.tree.find(prompt[:-1], namespace))
        found: Found = lookup.found
        return found

    def _fits(self, row: Row, prompt: Int32Array, headroom: int, lookup: Lookup) -> bool:
        if not row.reuse:
            lookup.set(self.log.clock, len(prompt), self.tree.find(prompt[:0], row.namespace))
        found = self._find(prompt, row.namespace, lookup)
        need = blocks_for(len(prompt), self.block_size) - found.tokens // self.block_size
        # Locking its own prefix takes that prefix from the evictable blocks.
        short = need + headroom + found.idle - self.free - self.evictable
        return short <= 0 or short <= self._loose(found)

    def _reuse(self, row: Row, prompt: Int32Array, lookup: Lookup) -> Opened:
        found: Found = lookup.found
        node = self.tree.settle(found)
        if node.owner != row.request:
            node.owner = None  # what others start with is a node of its own
        row.handle = node
        self.tree.lock(node, row.request, row.priority)
        if found.tokens:
            path = found.path[1:]
            if not path or path[-1] is not node:
                path.append(node)
            blocks = data_tokens(b"".join([n.block_data for n in path]))
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
        if self.strict or found.source is None or found.extra == 0:
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
        grown = self.free + self.evictable > 0 and self.grow(row.request, found.tokens + found.extra)
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

    def _share(self, parent: Row, child: Row) -> tuple[int, ...]:
        assert parent.handle is not None
        child.handle = self.tree.reaching(parent.handle, parent.published * self.block_size)
        child.handle.owner = None
        self.tree.lock(child.handle, child.request, child.priority)
        path = self.tree.path(child.handle)
        for n in path:
            n.hits += 1
        return tuple(n.id for n in path)

    def _evict(self, num_blocks: int, request: int | None) -> None:
        self._forget(self.tree.evict(num_blocks, request).blocks, request, lost=True)

    def _publish(self, row: Row) -> None:
        size = self.block_size
        full = len(row.tokens) // size
        start = row.published
        if full == start:
            return
        assert row.handle is not None
        if start * size <= row.prompt_tokens < full * size:
            row.handle.owner = None  # the answer starts a node of its own
        tokens, blocks = row.tokens.array[start * size : full * size], row.blocks.array[start:full].copy()
        stored = self.tree.store(
            row.handle, tokens, blocks, row.request, behind=start * size, cut=False, priority=row.priority
        )
        self._settle_blocks(row, start, blocks, stored)
        self._hold(row, stored.node)

    def _hold(self, row: Row, node: Node) -> None:
        """The row's lock moves on to ``node``."""
        if node is not row.handle:
            assert row.handle is not None
            self.tree.lock(node, row.request, row.priority)
            self.tree.unlock(row.handle, row.request)
            row.handle = node

    def _loose(self, found: Found | None = None) -> int:
        """``found``: without what a request that starts with it would use."""
        wanted = set() if found is None else {node.id for node in self.tree.path(found.node)}
        nodes: dict[int, tuple[Node, int, int]] = {}
        for row in self.rows.values():
            used, node = row.published * self.block_size, row.handle
            while node is not None and node.end > used:
                _, holders, most = nodes.get(node.id, (node, 0, 0))
                nodes[node.id] = node, holders + 1, max(most, used)
                node = node.parent
        loose = 0
        for node, holders, most in nodes.values():
            if holders == node.locks:  # else a request uses all of it, or what is below
                if found is not None and node.id in wanted:
                    most = max(most, found.tokens)
                loose += max(0, node.end - max(most, node.start)) // self.block_size
        return loose

    def _tighten(self) -> None:
        for row in self.rows.values():
            used, node = row.published * self.block_size, row.handle
            if node is not None and node.end > used:
                node = self.tree.reaching(node, used)
                self._hold(row, self.tree.part(node, used - node.start))

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
            self._forget(stored.dropped, row.request, lost=False)

    def _keep_tail(self, row: Row) -> None:
        written, size = len(row.tokens), self.block_size
        rest = written % size
        if self.strict or rest == 0 or row.handle is None:
            return
        block = int(row.blocks.array[row.published])
        stored = self.tree.store_tail(
            row.handle,
            row.tokens.array[written - rest : written],
            block,
            row.request,
            behind=written - rest,
            priority=row.priority,
        )
        if stored.present == 0:
            self.pool.keep(row.blocks.array[row.published : row.published + 1])
            row.published += 1
            # The tail itself is never locked: the row ends here.
        else:
            self._hold(row, stored.node)  # for a moment: it was used now, and the request ends there
        if len(stored.dropped):
            self._forget(stored.dropped, row.request, lost=False)

    def _unlock(self, row: Row) -> None:
        if row.handle is not None:
            self.tree.unlock(row.handle, row.request)

    def _check(self) -> None:
        expected: dict[int, int] = {}
        for row in self.rows.values():
            assert row.handle is not None
            blocks = self.tree.path_blocks(row.handle)
            if not np.array_equal(blocks[: row.published], row.blocks.array[: row.published]):
                raise IntegrityError(f"request {row.request}: its row does not start with its locked path")
            for node in self.tree.path(row.handle):
                expected[node.id] = expected.get(node.id, 0) + 1
        for node in self.tree.walk():
            if node.locks != expected.get(node.id, 0):
                raise IntegrityError(
                    f"node {node.id} has {node.locks} locks, {expected.get(node.id, 0)} rows hold it"
                )
        if not np.array_equal(check_tree(self.tree, self.num_blocks), self.pool.cached):
            raise IntegrityError("the blocks of the tree differ from those marked as cached")
