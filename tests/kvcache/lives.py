"""Requests brought through their life on a cache, and what the cache did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from chatkv.kvcache.cache import KVCache, Opened
from chatkv.kvcache.events import Event, EventLog
from chatkv.kvcache.radix_cache import RadixCache


class Watched:
    """A radix cache, its records, and the steps of a request with the integrity checked after each."""

    def __init__(self, num_blocks: int, block_size: int, *, strict: bool, eviction: str = "lru") -> None:
        self.events: list[Event] = []
        log = EventLog(self.events.append)
        self.cache = RadixCache(num_blocks, block_size, strict=strict, eviction=eviction, log=log)

    def open(
        self, request: int, prompt: Sequence[int], *, resumed: bool = False, session: str = ""
    ) -> Opened:
        opened = self.cache.open(request, prompt, resumed=resumed, session=session)
        assert opened is not None
        self.cache.check_integrity()
        return opened

    def compute(self, request: int, tokens: Sequence[int]) -> None:
        """The forward over the row's next ``tokens``."""
        compute(self.cache, request, tokens)

    def close(self, request: int, reason: str = "finished") -> None:
        self.cache.close(request, reason)
        self.cache.check_integrity()

    def whole(
        self, request: int, prompt: Sequence[int], answer: Sequence[int] = (), *, session: str = ""
    ) -> int:
        """A whole life: the prompt in one forward, the answer token by token; returns ``cached``.

        The last sampled token is never computed: ``answer`` goes without it.
        """
        opened = self.open(request, prompt, session=session)
        self.compute(request, prompt[opened.cached :])
        for token in answer:
            self.compute(request, [token])
        self.close(request)
        return opened.cached

    def of(self, kind: type[Event]) -> list[Event]:
        """The records of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Free, evictable, protected blocks."""
        return self.cache.free, self.cache.evictable, self.cache.protected

    @property
    def nodes(self) -> list[tuple[list[int], int]]:
        """Tokens and locks of every node, in order of tokens."""
        return sorted((node.tokens.tolist(), node.locks) for node in self.cache.tree.walk())


def compute(cache: KVCache, request: int, tokens: Sequence[int]) -> None:
    """Make room, write, commit, check."""
    assert cache.grow(request, len(cache.row(request).tokens) + len(tokens))
    cache.check_integrity()
    cache.commit(request, tokens)
    cache.check_integrity()
