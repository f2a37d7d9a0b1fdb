"""The caches by name."""

from __future__ import annotations

from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.events import EventLog
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.radix_cache import RadixCache

KINDS: dict[str, type[KVCache]] = {kind.kind: kind for kind in (RadixCache, HashCache, NoneCache)}


def make_cache(
    kind: str,
    num_blocks: int,
    block_size: int,
    *,
    strict: bool = False,
    eviction: str = "lru",
    grain: str = "node",
    log: EventLog | None = None,
) -> KVCache:
    """A cache of ``kind``; raises ValueError that lists the names, or names the option that can't be."""
    if kind not in KINDS:
        raise ValueError(f"unknown cache {kind!r}: choose one of {', '.join(KINDS)}")
    return KINDS[kind](num_blocks, block_size, strict=strict, eviction=eviction, grain=grain, log=log)
