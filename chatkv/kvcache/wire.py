"""The KV-event wire of vLLM and SGLang, derived from our records: full blocks by chained hash.

``BlockStored``, ``BlockRemoved`` and ``AllBlocksCleared`` carry what vLLM's ``distributed/kv_events.py``
and SGLang's ``disaggregation/kv_events.py`` publish. The wire knows neither nodes nor partly filled
blocks: a split says nothing there, a tail never shows. Hashes differ between namespaces, always (in
SGLang's default format two adapters get the same ones).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from chatkv.kvcache import events as ev
from chatkv.kvcache.block_hash import Hash, block_hash
from chatkv.kvcache.errors import CacheError
from chatkv.kvcache.events import Int32Array


@dataclass(frozen=True, slots=True)
class BlockStored:
    """A run of blocks can be found: each is the parent of the next, ``parent_block_hash`` of the first.

    ``token_ids`` are ``block_size`` for each hash. ``parent_block_hash`` is None at a prompt's start.
    """

    block_hashes: tuple[Hash, ...]
    parent_block_hash: Hash | None
    token_ids: tuple[int, ...]
    block_size: int
    namespace: str


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """These blocks can't be found any more; a block never goes before those that hang on it."""

    block_hashes: tuple[Hash, ...]


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """No block can be found any more."""


WireEvent = BlockStored | BlockRemoved | AllBlocksCleared


def coalesced(events: Iterable[WireEvent]) -> list[WireEvent]:
    """The same in fewer events: neighbours that continue each other become one."""
    groups: list[list[WireEvent]] = []
    for event in events:
        if groups and _continues(groups[-1][-1], event):
            groups[-1].append(event)
        else:
            groups.append([event])
    return [_joined(group) for group in groups]


def _continues(before: WireEvent, after: WireEvent) -> bool:
    if isinstance(before, BlockStored) and isinstance(after, BlockStored):
        return after.parent_block_hash == before.block_hashes[-1]
    return isinstance(before, BlockRemoved) and isinstance(after, BlockRemoved)


def _joined(group: list[WireEvent]) -> WireEvent:
    first = group[0]
    if len(group) == 1:
        return first
    stored = [event for event in group if isinstance(event, BlockStored)]
    if isinstance(first, BlockStored):
        hashes = tuple(chain.from_iterable(event.block_hashes for event in stored))
        tokens = tuple(chain.from_iterable(event.token_ids for event in stored))
        return replace(first, block_hashes=hashes, token_ids=tokens)
    removed = [event for event in group if isinstance(event, BlockRemoved)]
    return BlockRemoved(tuple(chain.from_iterable(event.block_hashes for event in removed)))


class WireEncoder:
    """Folds our records into wire events: ``feed`` each record in order, ``take`` what has come up.

    Memory: one hash a cached block. A hash is announced once, however many blocks hold it, and removed
    with the last of them.
    """

    def __init__(self, block_size: int) -> None:
        """Raises ValueError for a block size below 1."""
        if block_size < 1:
            raise ValueError(f"block_size must be at least 1, got {block_size}")
        self.block_size = block_size
        self._queue: list[WireEvent] = []
        self._forget()

    def hashes(self, node: int) -> tuple[Hash, ...]:
        """The hashes of the node's full blocks. Raises CacheError for an unknown node."""
        return tuple(self._nodes[self._known(node)].hashes)

    def feed(self, event: ev.Event) -> list[WireEvent]:
        """Fold one record; what it means on the wire (often nothing) is returned and queued for ``take``.

        Raises CacheError where the record names a node that was never stored.
        """
        handler = _HANDLERS.get(type(event))
        out = coalesced(handler(self, event)) if handler else []
        self._queue += out
        return out

    def take(self) -> list[WireEvent]:
        """What came up since the last call, in order; runs that belong together are one event."""
        out, self._queue = coalesced(self._queue), []
        return out

    # --- inside -----------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._nodes: dict[int, _Node] = {ev.ROOT: _Node("", None, [])}
        self._held: Counter[Hash] = Counter()

    def _known(self, node: int) -> int:
        if node not in self._nodes:
            raise CacheError(f"node {node} was never stored in this stream: feed it from the start")
        return node

    def _created(self, event: ev.CacheCreated) -> list[WireEvent]:
        self.block_size = event.block_size
        announced = bool(self._held)
        self._forget()
        return [AllBlocksCleared()] if announced else []

    def _cleared(self, event: ev.Event) -> list[WireEvent]:
        self._forget()
        return [AllBlocksCleared()]

    def _stored(self, event: ev.NodeStored) -> list[WireEvent]:
        above = self._nodes[self._known(event.parent)]
        node = _Node(event.namespace, above.end, [])
        self._nodes[event.node] = node
        return self._grow(node, event.tokens)

    def _extended(self, event: ev.NodeExtended) -> list[WireEvent]:
        return self._grow(self._nodes[self._known(event.node)], event.tokens)

    def _grow(self, node: _Node, tokens: Int32Array) -> list[WireEvent]:
        size = self.block_size
        out: list[WireEvent] = []
        for at in range(0, len(tokens) - size + 1, size):
            block = tokens[at : at + size]
            digest = block_hash(node.end, block, node.namespace)
            self._held[digest] += 1
            if self._held[digest] == 1:
                out.append(BlockStored((digest,), node.end, tuple(block.tolist()), size, node.namespace))
            node.hashes.append(digest)
        return out

    def _split(self, event: ev.NodeSplit) -> list[WireEvent]:
        node, at = self._nodes[self._known(event.node)], event.at // self.block_size
        self._nodes[event.upper] = _Node(node.namespace, node.parent, node.hashes[:at])
        node.parent, node.hashes = node.hashes[at - 1], node.hashes[at:]
        return []

    def _evicted(self, event: ev.NodeEvicted) -> list[WireEvent]:
        return self._shrink(self._nodes.pop(self._known(event.node)), 0)

    def _trimmed(self, event: ev.NodeTrimmed) -> list[WireEvent]:
        node = self._nodes[self._known(event.node)]
        return self._shrink(node, len(node.hashes) - len(event.blocks))

    def _shrink(self, node: _Node, keep: int) -> list[WireEvent]:
        gone = []
        for digest in reversed(node.hashes[keep:]):
            self._held[digest] -= 1
            if self._held[digest] == 0:
                del self._held[digest]
                gone.append(digest)
        del node.hashes[keep:]
        return [BlockRemoved(tuple(gone))] if gone else []


@dataclass(slots=True)
class _Node:
    """``parent`` is the hash of the block before the first."""

    namespace: str
    parent: Hash | None
    hashes: list[Hash]

    @property
    def end(self) -> Hash | None:
        return self.hashes[-1] if self.hashes else self.parent


_HANDLERS: dict[type[ev.Event], Callable[[WireEncoder, Any], list[WireEvent]]] = {
    ev.CacheCreated: WireEncoder._created,
    ev.NodeStored: WireEncoder._stored,
    ev.NodeExtended: WireEncoder._extended,
    ev.NodeSplit: WireEncoder._split,
    ev.NodeEvicted: WireEncoder._evicted,
    ev.NodeTrimmed: WireEncoder._trimmed,
    ev.CacheCleared: WireEncoder._cleared,
}
