"""Requests brought through their life on a hash cache, with blocks numbered as vLLM numbers them.

vLLM reserves block 0 as its null block and we do not: our block b is its block b + 1, and a pool of its
11 blocks is one of our 10. Orders are the same. vLLM allocates a prompt's blocks when it schedules them,
we do when the row grows; ``allocate`` does both steps at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from chatkv.kvcache.events import Event, EventLog
from chatkv.kvcache.hash_cache import HashCache


class Life:
    """``vllm_blocks`` counts the null block, which is not there."""

    def __init__(self, vllm_blocks: int, block_size: int = 16) -> None:
        self.events: list[Event] = []
        self.cache = HashCache(vllm_blocks - 1, block_size, log=EventLog(self.events.append))

    def allocate(self, request: int, prompt: Sequence[int], **options: object) -> int | None:
        """Open and make room for the whole prompt; how many tokens were cached, or None."""
        opened = self.cache.open(request, prompt, **options)  # type: ignore[arg-type]
        self.cache.check_integrity()
        if opened is None:
            return None
        assert (opened.copied, opened.copies) == (0, ())
        assert self.cache.grow(request, len(prompt))
        self.cache.check_integrity()
        return opened.cached

    def compute(self, request: int, tokens: Sequence[int]) -> None:
        """Make room for the row's next ``tokens``, write and commit them."""
        assert self.cache.grow(request, len(self.cache.row(request).tokens) + len(tokens))
        self.cache.commit(request, tokens)
        self.cache.check_integrity()

    def prefill(self, request: int, prompt: Sequence[int], **options: object) -> int:
        """Allocate and compute the whole prompt; how many tokens were cached."""
        cached = self.allocate(request, prompt, **options)
        assert cached is not None
        self.compute(request, prompt[cached:])
        return cached

    def close(self, request: int, reason: str = "finished") -> None:
        self.cache.close(request, reason)
        self.cache.check_integrity()

    def blocks(self, request: int) -> list[int]:
        """The row in vLLM's numbers."""
        return (self.cache.row(request).blocks.array + 1).tolist()

    def queue(self) -> list[int]:
        """All blocks that no row names, in vLLM's numbers, next to be taken first."""
        return (self.cache.pool.unused() + 1).tolist()

    def refs(self, *blocks: int) -> list[int]:
        """How many rows name each block, given in vLLM's numbers."""
        return [int(self.cache.pool.refs[block - 1]) for block in blocks]

    def hash(self, block: int) -> bytes | None:
        """The hash of a block, given in vLLM's numbers."""
        return self.cache.block_hash(block - 1)

    @property
    def num_unused(self) -> int:
        """What vLLM calls free: blocks that no row names, cached ones included."""
        return self.cache.free + self.cache.evictable


def run(*parts: tuple[int, int]) -> list[int]:
    """Tokens: each ``(token, count)`` in turn."""
    return [token for token, count in parts for _ in range(count)]


COMMON = list(range(48))
"""Three full blocks of 16."""
