"""Streams of records written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from chatkv.insight.mirror import Mirror
from chatkv.kvcache import events as kv


def ints(*values: int) -> kv.Int32Array:
    return np.array(values, np.int32)


class Stream:
    """Emits records into a list and a mirror; block size 2 unless told otherwise."""

    def __init__(self, num_blocks: int = 8, block_size: int = 2, strict: bool = False) -> None:
        self.mirror = Mirror()
        self.events: list[kv.Event] = []
        self.log = kv.EventLog(self.sink)
        self.emit(
            kv.CacheCreated,
            num_blocks=num_blocks,
            block_size=block_size,
            cache="radix",
            eviction="lru",
            grain="node",
            strict=strict,
        )

    def sink(self, event: kv.Event) -> None:
        self.events.append(event)
        self.mirror.apply(event, 1000.0 + event.seq)

    def emit(self, kind: type[kv.Event], **values: Any) -> None:
        self.log.emit(kind, **{k: ints(*v) if isinstance(v, list) else v for k, v in values.items()})

    def open(self, request: int, session: str = "a", prompt: int = 5, resumed: bool = False) -> None:
        self.emit(
            kv.RequestOpened,
            request=request,
            session=session,
            namespace="",
            prompt_tokens=prompt,
            resumed=resumed,
        )

    def allocate(self, request: int, *blocks: int) -> None:
        at = len(self.mirror.rows[request].blocks)
        self.emit(kv.BlocksAllocated, request=request, logical=at, blocks=list(blocks))

    def write(self, request: int, count: int) -> None:
        self.emit(kv.TokensWritten, request=request, count=count)

    def store(
        self, node: int, parent: int, tokens: list[int], blocks: list[int], request: int | None = None
    ) -> None:
        self.emit(
            kv.NodeStored,
            node=node,
            parent=parent,
            namespace="",
            tokens=tokens,
            blocks=blocks,
            request=request,
        )

    def store_free(self, node: int, parent: int, tokens: list[int], blocks: list[int]) -> None:
        """Take free blocks for a request of its own, and leave a node behind."""
        request = 1_000 + node
        self.open(request)
        self.allocate(request, *blocks)
        self.write(request, len(tokens))
        self.store(node, parent, tokens, blocks, request)
        self.close(request)

    def lock(self, node: int, request: int | None = None) -> None:
        self.emit(kv.PathLocked, node=node, request=request)

    def unlock(self, node: int, request: int | None = None) -> None:
        self.emit(kv.PathUnlocked, node=node, request=request)

    def evict(self, node: int, reason: str = "room") -> None:
        gone = self.mirror.nodes[node]
        self.emit(
            kv.NodeEvicted,
            node=node,
            tokens=len(gone.tokens),
            blocks=gone.blocks.tolist(),
            reason=reason,
            strategy="lru",
            rank=1,
            age=3,
            request=None,
            leaves=1,
        )

    def close(self, request: int, reason: str = "finished") -> None:
        self.emit(kv.RequestClosed, request=request, reason=reason)

    def glyphs(self) -> str:
        return "".join(self.mirror.block_state(b).glyph for b in range(self.mirror.num_blocks))

    def whole_request(self, request: int, node: int, tokens: list[int], blocks: list[int]) -> None:
        """A request that computes everything, stores it under the root and is over."""
        self.open(request)
        self.allocate(request, *blocks)
        self.write(request, len(tokens))
        self.store(node, kv.ROOT, tokens, blocks, request)
        self.close(request)
