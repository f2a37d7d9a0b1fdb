"""The block table: a row a request, logical block → physical block, and how far it is filled.

PagedAttention (vLLM, arXiv 2309.06180, section 4.2): blocks are taken on demand, only the last one
may be partly filled, so a request wastes less than one block.
"""

from __future__ import annotations

import numpy as np

from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.node import Node


class IntBuffer:
    """A growing int32 array with room for ``room`` values; appending is amortised O(1) a value."""

    __slots__ = ("_data", "size")

    def __init__(self, room: int) -> None:
        self.size = 0
        self._data = np.empty(room, dtype=np.int32)

    def __len__(self) -> int:
        return self.size

    @property
    def array(self) -> Int32Array:
        """The values, int32 [size]: a view that is good until the next ``extend``."""
        return self._data[: self.size]

    def extend(self, values: Int32Array) -> None:
        """Append ``values``."""
        end = self.size + len(values)
        if end > len(self._data):
            grown = np.empty(max(16, 2 * end), dtype=np.int32)
            grown[: self.size] = self._data[: self.size]
            self._data = grown
        self._data[self.size : end] = values
        self.size = end


class Row:
    """One request. ``tokens`` are those whose KV exists; ``blocks`` has room for them and maybe more."""

    __slots__ = (
        "blocks",
        "handle",
        "namespace",
        "priority",
        "prompt_tokens",
        "published",
        "request",
        "reuse",
        "session",
        "tokens",
    )

    def __init__(
        self,
        request: int,
        session: str,
        namespace: str,
        prompt_tokens: int,
        reuse: bool = True,
        priority: int = 0,
    ) -> None:
        self.request = request
        self.session = session
        self.namespace = namespace
        self.prompt_tokens = prompt_tokens
        self.reuse = reuse
        """Whether the prompt may be looked up; what is written is stored either way."""
        self.priority = priority
        """Of what it stores, where the cache evicts by priority."""
        self.tokens = IntBuffer(prompt_tokens)
        self.blocks = IntBuffer(16)
        self.published = 0
        """How many of the first blocks belong to the prefix cache (and are locked through ``handle``)."""
        self.handle: Node | None = None

    def filled(self, block_size: int) -> list[int]:
        """Tokens in each logical block."""
        written = len(self.tokens)
        return [min(max(written - i * block_size, 0), block_size) for i in range(len(self.blocks))]
