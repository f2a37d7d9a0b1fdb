"""What ``python -m benchmarks core`` measures: chatkv's tree, chatkv's map of hashes, SGLang's tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.core.sglang_peer import SGLangTree
from chatkv.kvcache.cache import blocks_for
from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.radix import RadixTree


class Peer(Protocol):
    """A prefix cache to measure. Keys and slots are made outside the timed part."""

    def key(self, tokens: Any, session: str) -> Any: ...  # noqa: D102
    def slots(self, n: int) -> Any: ...  # noqa: D102
    def match(self, key: Any) -> int: ...  # noqa: D102
    def insert(self, key: Any, slots: Any) -> int: ...  # noqa: D102
    def evict(self, tokens: int) -> None: ...  # noqa: D102
    @property
    def cached_tokens(self) -> int: ...  # noqa: D102


class OwnTree:
    """chatkv's ``RadixTree``, strict, as SGLang's is."""

    def __init__(self, page_size: int, grain: str = "node") -> None:
        self.tree = RadixTree(page_size, strict=True, grain=grain)

    def key(self, tokens: Any, session: str = "") -> Int32Array:
        """Token ids as chatkv keeps them."""
        return np.array(tokens, dtype=np.int32)

    def slots(self, n: int) -> Int32Array:
        """Block ids for ``n`` tokens."""
        return np.arange(n // self.tree.block_size, dtype=np.int32)

    def match(self, key: Int32Array) -> int:
        """The number of cached tokens ``key`` starts with."""
        return self.tree.match(key).tokens

    def insert(self, key: Int32Array, slots: Int32Array) -> int:
        """Store; how many tokens were there before."""
        return self.tree.insert(key, slots).present

    def evict(self, tokens: int) -> None:
        """Evict at least ``tokens`` tokens."""
        self.tree.evict(blocks_for(tokens, self.tree.block_size))

    @property
    def cached_tokens(self) -> int:
        """Tokens in the tree."""
        return self.tree.total_tokens


class _Asked(NamedTuple):
    session: str
    tokens: Int32Array


class OwnHashes:
    """chatkv's ``HashCache``, whole: a map alone has no order of eviction.

    ``match`` opens a request, hashing what the session's last turn did not; ``insert`` takes its blocks,
    evicting where needed, stores them and ends it. So it does more than the trees, which own no pool.
    """

    cached_tokens = 0
    """The pool makes room by itself."""

    def __init__(self, page_size: int, pool: int) -> None:
        self.cache = HashCache(max(pool // page_size, 1), page_size)
        self._request = 0
        self._hit = 0

    def key(self, tokens: Any, session: str) -> _Asked:
        """Token ids, and whose they are."""
        return _Asked(session, np.array(tokens, dtype=np.int32))

    def slots(self, n: int) -> None:
        """The pool hands out its own."""

    def match(self, key: _Asked) -> int:
        """Open a request; the number of cached tokens it starts with."""
        self._request += 1
        # The last token of a prompt is always computed: one more, so that all of ``key`` can be hit.
        prompt = np.append(key.tokens, np.int32(0))
        opened = self.cache.open(self._request, prompt, session=key.session)
        assert opened is not None, "one chat at a time fits"
        self._hit = opened.cached
        return opened.cached

    def insert(self, key: _Asked, slots: None) -> int:
        """Write the open request's tokens and end it; how many were there before."""
        self.cache.grow(self._request, len(key.tokens))
        self.cache.commit(self._request, key.tokens[self._hit :])
        self.cache.close(self._request, "finished")
        return self._hit

    def evict(self, tokens: int) -> None:
        """Never asked for: see ``insert``."""


PEERS: dict[str, Callable[[int, int], Peer]] = {
    "radix": lambda page, pool: OwnTree(page),
    "hash": OwnHashes,
    "sglang": lambda page, pool: SGLangTree(page),
}
"""By name, to be called with the page size and the pool in tokens."""
