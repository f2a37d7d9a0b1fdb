"""Stands in for the KV on a device: what each slot of each block holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from chatkv.kvcache.cache import Copy, KVCache

Values = npt.NDArray[np.int64]


def content(tokens: Sequence[int], namespace: str = "") -> list[int]:
    """The KV of each token: it depends on the token, all before it and the namespace."""
    out, h = [], hash(namespace)
    for token in tokens:
        h = hash((h, token))
        out.append(h)
    return out


class Memory:
    """``slots`` int64 [blocks, block size]."""

    def __init__(self, cache: KVCache) -> None:
        self.cache = cache
        self.slots: Values = np.zeros((cache.num_blocks, cache.block_size), dtype=np.int64)

    def copy(self, copies: Iterable[Copy]) -> None:
        """Carry out what ``open`` or ``fork`` asked for."""
        for copy in copies:
            self.slots[copy.target, : copy.tokens] = self.slots[copy.source, : copy.tokens]

    def write(self, request: int, start: int, values: Sequence[int]) -> None:
        """The forward over the row's tokens from ``start``."""
        at = np.arange(start, start + len(values))
        size, blocks = self.cache.block_size, self.cache.row(request).blocks.array
        self.slots[blocks[at // size], at % size] = values

    def read(self, request: int) -> list[int]:
        """The KV that attention would see: of each token of the row that counts as written."""
        row = self.cache.row(request)
        out: list[int] = self.slots[row.blocks.array].reshape(-1)[: len(row.tokens)].tolist()
        return out
