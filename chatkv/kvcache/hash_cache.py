"""``--cache hash``: prefixes are found block by block in a map of chained hashes (vLLM V1).

As in vLLM: only full blocks are reused, the last block of a prompt is always computed, nobody's table is
ever rewritten (so two requests that compute the same at once both keep their blocks), and unused blocks
are taken in the order of one queue. Unlike vLLM, a block can be found once its KV is written and not
already when it is scheduled, and a block that nobody uses is given up when another with the same tokens
is stored: it could only waste room.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import numpy.typing as npt

from chatkv.kvcache import events as ev
from chatkv.kvcache.block_hash import Hash, SessionHashes, token_bytes
from chatkv.kvcache.cache import KVCache, Opened, blocks_for, token_ids
from chatkv.kvcache.errors import IntegrityError
from chatkv.kvcache.events import EventLog, Int32Array
from chatkv.kvcache.hash_index import HashedBlock, HashIndex
from chatkv.kvcache.queue_pool import QueuePool
from chatkv.kvcache.results import Lookup
from chatkv.kvcache.table import Row


class _Held:
    """What the cache knows of a row: ``entries`` are its published blocks, ``hashes`` may go further."""

    __slots__ = ("entries", "hashes", "prompt")

    def __init__(self, entries: list[HashedBlock], hashes: list[Hash], prompt: Int32Array) -> None:
        self.entries = entries
        self.hashes = hashes
        self.prompt = prompt
        """The tokens that ``hashes`` were computed from when the row was opened."""


class HashCache(KVCache):
    """Rows over a pool and a map of hashes.

    Reuse is by whole blocks whatever ``strict`` says, and eviction goes block by block whatever ``grain``
    says: a node is a block. Raises ValueError for an eviction strategy other than ``lru``, which is the
    queue's order.
    """

    kind = "hash"
    pool: QueuePool

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        strict: bool = True,
        eviction: str = "lru",
        grain: str = "block",
        log: EventLog | None = None,
    ) -> None:
        if eviction != "lru":
            raise ValueError(f"the hash cache evicts in the order of its queue (lru), not by {eviction!r}")
        if grain not in ("node", "block"):
            raise ValueError(f"unknown eviction grain {grain!r}: choose node or block")
        super().__init__(num_blocks, block_size, strict=True, eviction="lru", grain="block", log=log)
        self.index = HashIndex()
        self.hashes = SessionHashes(block_size)
        self._entries: list[HashedBlock | None] = [None] * num_blocks
        self._held: dict[int, _Held] = {}
        self._next_id = ev.ROOT + 1

    @property
    def evictable(self) -> int:
        """Blocks with a hash that no row names."""
        return len(self.pool.idle)

    def block_hash(self, block: int) -> Hash | None:
        """The hash under which ``block`` can be found, or None."""
        entry = self._entries[block]
        return None if entry is None else entry.hash

    def peek(
        self,
        prompt: npt.ArrayLike,
        namespace: str = "",
        session: str = "",
        lookup: Lookup | None = None,
    ) -> int:
        """How many tokens of ``prompt`` would be reused now: whole blocks, never the last token."""
        if lookup is None:
            lookup = Lookup()
        return len(self._found(token_ids(prompt), namespace, session, lookup)) * self.block_size

    def locate(self, tokens: npt.ArrayLike, namespace: str = "", session: str = "") -> tuple[int, Int32Array]:
        """The whole blocks that ``tokens`` start with and that are cached."""
        ids = token_ids(tokens)
        found = self._find(self.hashes.chain(session, namespace, ids), ids, namespace, len(ids))
        return len(found) * self.block_size, _blocks(found)

    def clear(self) -> bool:
        """Forget all hashes; False while any row is open."""
        if self.rows:
            return False
        self.pool.forget(self.pool.idle.array())
        if self._ledger is not None:
            self._ledger.clear()
        self.index.clear()
        self._entries = [None] * self.num_blocks
        self.log.emit(ev.CacheCleared)
        return True

    # --- what the life of a request asks for ------------------------------------------------------

    def _new_pool(self, num_blocks: int) -> QueuePool:
        return QueuePool(num_blocks)

    def _find(
        self, hashes: list[Hash], prompt: Int32Array, namespace: str, upto: int | None = None
    ) -> list[HashedBlock]:
        """The cached blocks that the first ``upto`` tokens of ``prompt`` start with (all but the last)."""
        size = self.block_size
        limit = (len(prompt) - 1 if upto is None else upto) // size
        data = token_bytes(prompt[: limit * size])
        out: list[HashedBlock] = []
        entry: HashedBlock | None = None
        for i in range(limit):
            entry = self.index.find(hashes[i], entry, data[4 * size * i : 4 * size * (i + 1)], namespace)
            if entry is None:
                break
            out.append(entry)
        return out

    def _known(self, prompt: Int32Array, namespace: str, session: str) -> int:
        hashes = self.hashes.chain(session, namespace, prompt)
        return len(self._find(hashes, prompt, namespace, len(prompt))) * self.block_size

    def _known_of(self, row: Row, prompt: Int32Array, lookup: Lookup) -> int:
        found: list[HashedBlock] = lookup.found
        size, full = self.block_size, len(found) + 1
        if full * size == len(prompt):  # all but the last block, which no prompt may reuse
            data = token_bytes(prompt[-size:])
            entry = self.index.find(
                lookup.hashes[full - 1], found[-1] if found else None, data, row.namespace
            )
            return (full if entry is not None else full - 1) * size
        return len(found) * size

    def _found(self, prompt: Int32Array, namespace: str, session: str, lookup: Lookup) -> list[HashedBlock]:
        """What the prompt may reuse; ``lookup`` has it, and its hashes, afterwards."""
        if not lookup.current(self.log.clock, len(prompt)):
            hashes = self.hashes.chain_of(lookup.hashes, session, namespace, prompt)
            lookup.set(self.log.clock, len(prompt), self._find(hashes, prompt, namespace))
        found: list[HashedBlock] = lookup.found
        return found

    def _fits(self, row: Row, prompt: Int32Array, headroom: int, lookup: Lookup) -> bool:
        fresh = not lookup.hashes
        found = self._found(prompt, row.namespace, row.session, lookup)
        if not row.reuse:
            found = []
        # Hits that nobody uses sit in the queue and leave it with this row: they are no room [B11].
        idle = int(np.count_nonzero(self.pool.refs[_blocks(found)] == 0))
        need = blocks_for(len(prompt), self.block_size) - len(found)
        if need + headroom > self.free + self.evictable - idle:
            return False
        if not fresh:  # the session's are those of whoever asked last
            self.hashes.remember(row.session, row.namespace, prompt, lookup.hashes)
        self._held[row.request] = _Held(found.copy(), lookup.hashes.copy(), prompt.copy())
        return True

    def _reuse(self, row: Row, prompt: Int32Array, lookup: Lookup) -> Opened:
        found = self._held[row.request].entries
        if not found:
            return Opened(0, 0, ())
        blocks = _blocks(found)
        cached = len(blocks) * self.block_size
        self.pool.share(blocks)
        row.blocks.extend(blocks)
        row.tokens.extend(prompt[:cached])
        row.published = len(blocks)
        self._lock(row, found)
        path = tuple(entry.id for entry in found)
        self.log.emit(ev.PrefixReused, request=row.request, path=path, blocks=blocks, tokens=cached)
        return Opened(cached, 0, ())

    def _share(self, parent: Row, child: Row) -> tuple[int, ...]:
        held = self._held[parent.request]
        self._held[child.request] = _Held(held.entries.copy(), held.hashes.copy(), held.prompt)
        self._lock(child, held.entries)
        return tuple(entry.id for entry in held.entries)

    def _lock(self, row: Row, entries: list[HashedBlock]) -> None:
        if entries:
            nodes = tuple(entry.id for entry in entries)
            self.log.emit(ev.PathLocked, node=nodes[-1], request=row.request, nodes=nodes)
            for entry in entries:
                entry.last = self.log.clock

    def _unlock(self, row: Row) -> None:
        held = self._held.pop(row.request)
        if len(row.tokens) >= row.prompt_tokens:  # else the session's prompt is remembered, which is more
            self.hashes.remember(row.session, row.namespace, row.tokens.array, held.hashes)
        if held.entries:
            nodes = tuple(entry.id for entry in held.entries)
            self.log.emit(ev.PathUnlocked, node=nodes[-1], request=row.request, nodes=nodes)
            for entry in held.entries:
                entry.last = self.log.clock

    def _publish(self, row: Row) -> None:
        size, start = self.block_size, row.published
        full = len(row.tokens) // size
        if full == start:
            return
        held, tokens = self._held[row.request], row.tokens.array[: full * size]
        known = slice(start * size, min(len(held.hashes), full) * size)
        if not np.array_equal(held.prompt[known], tokens[known]):
            del held.hashes[start:]  # what was written is not the prompt that was announced
        self.hashes.extend(held.hashes, row.namespace, tokens)
        self.pool.keep(row.blocks.array[start:full])
        row.published = full
        for i in range(start, full):
            self._store(row, held, i, tokens[i * size : (i + 1) * size])
        self._lock(row, held.entries[start:])

    def _store(self, row: Row, held: _Held, i: int, tokens: Int32Array) -> None:
        """Make the row's full block number ``i`` findable."""
        before = held.entries[-1] if held.entries else None
        data = token_bytes(tokens)
        entry = HashedBlock(
            self._next_id, int(row.blocks.array[i]), held.hashes[i], before, data, row.namespace
        )
        self._next_id += 1
        twin = self.index.find(entry.hash, before, data, row.namespace)
        self.index.add(entry, twin)
        self._entries[entry.block] = entry
        held.entries.append(entry)
        if self.log.listening:
            self.log.emit(
                ev.NodeStored,
                node=entry.id,
                parent=ev.ROOT if before is None else self.index.first(before).id,
                namespace=row.namespace,
                tokens=tokens.copy(),
                blocks=np.array([entry.block], dtype=np.int32),
                request=row.request,
            )
        else:
            self.log.tick()
        entry.last = self.log.clock
        if twin is not None:
            unused = [same for same in self.index.same(entry) if same.block in self.pool.idle]
            self._remove(unused, "superseded", row.request)

    def _keep_tail(self, row: Row) -> None:
        pass  # a partly filled block has no hash

    def _evict(self, num_blocks: int, request: int | None) -> None:
        oldest = [self._entries[block] for block in islice(self.pool.idle, num_blocks)]
        self._remove([entry for entry in oldest if entry is not None], "room", request)

    def _remove(self, entries: list[HashedBlock], reason: str, request: int | None) -> None:
        """Idle → free, in this order."""
        for rank, entry in enumerate(entries, start=1):
            first, *others = self.index.same(entry)
            self.index.remove(entry)
            self._entries[entry.block] = None
            age = self.log.clock - entry.last
            if first is entry and others:
                self.log.emit(ev.ChildrenMoved, node=entry.id, heir=others[0].id)
            if not self.log.listening:
                self.log.tick()
                continue
            self.log.emit(
                ev.NodeEvicted,
                node=entry.id,
                tokens=self.block_size,
                blocks=np.array([entry.block], dtype=np.int32),
                reason=reason,
                strategy="lru",
                rank=rank,
                age=age,
                request=request,
            )
        self._forget(_blocks(entries), request, lost=reason == "room")

    # --- integrity --------------------------------------------------------------------------------

    def _check(self) -> None:
        found = {entry.id: entry for entry in self.index}
        indexed = sorted(entry.block for entry in found.values())
        if indexed != np.flatnonzero(self.pool.cached).tolist():
            raise IntegrityError("the blocks in the map of hashes differ from those marked as cached")
        prefixes = {ev.ROOT} | {entry.prefix for entry in found.values()}
        for entry in found.values():
            if self._entries[entry.block] is not entry:
                raise IntegrityError(f"{entry!r} is in the map, but its block names another")
            if entry.parent not in prefixes:
                raise IntegrityError(f"{entry!r} can't be found: no block holds what comes before it")
        if self._held.keys() != self.rows.keys():
            raise IntegrityError("the rows with published blocks differ from the open rows")
        for row in self.rows.values():
            self._check_row(row, self._held[row.request].entries)

    def _check_row(self, row: Row, entries: list[HashedBlock]) -> None:
        size, before = self.block_size, ev.ROOT
        if [entry.block for entry in entries] != row.blocks.array[: row.published].tolist():
            raise IntegrityError(f"request {row.request}: its row does not start with its published blocks")
        for i, entry in enumerate(entries):
            if entry.parent != before or entry.tokens != token_bytes(row.tokens.array[i * size :][:size]):
                raise IntegrityError(f"request {row.request}: {entry!r} does not hold its tokens")
            before = entry.prefix


def _blocks(entries: list[HashedBlock]) -> Int32Array:
    return np.fromiter((entry.block for entry in entries), dtype=np.int32, count=len(entries))
