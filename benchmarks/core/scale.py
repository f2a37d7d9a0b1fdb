"""How the cache grows: bytes a cached token, the cost of evicting, the longest pause."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from benchmarks.core.chats import conversations
from benchmarks.core.peers import OwnTree
from chatkv.kvcache.kinds import make_cache

LEAVES = (1_000, 10_000, 100_000)
EVICTIONS = 500
NODES, NODE_TOKENS, GROUPS = 10_000, 112, 100
"""Leaves of the tree whose longest operation is sought, and tokens in each; they hang below ``GROUPS``."""
LONGEST_EVICTION = 256
"""Blocks: what a prompt of 4,096 tokens asks for at once."""


@dataclass
class Scale:
    """Bytes a cached token by block size; µs an eviction by number of leaves; the longest operation."""

    tree_bytes: dict[int, float] = field(default_factory=dict)
    """The tree alone."""
    open_bytes: dict[int, float] = field(default_factory=dict)
    """Tree, pool and the block tables of all chats, each open."""
    evict_us: dict[int, float] = field(default_factory=dict)
    longest_ms: dict[str, float] = field(default_factory=dict)
    """By kind of operation, in CPU time: a busy neighbour is no pause of ours."""
    tokens: int = 0
    nodes: int = 0


def run_scale() -> Scale:
    """The radix cache: memory at blocks of 1 and 16 tokens, evictions, pauses."""
    scale = Scale()
    for page in (1, 16):
        scale.tree_bytes[page], scale.open_bytes[page] = memory(page)
    for leaves in LEAVES:
        scale.evict_us[leaves] = eviction(leaves)
    pauses(scale)
    return scale


def memory(page: int) -> tuple[float, float]:
    """Bytes a cached token: of the tree alone, and of a whole cache with every chat's request open."""
    talks = conversations()
    gc.collect()
    tracemalloc.start()
    tree = OwnTree(page)
    for talk in talks:
        tree.insert(talk, tree.slots(len(talk)))
    alone = tracemalloc.get_traced_memory()[0] / tree.cached_tokens
    tokens = tree.cached_tokens
    del tree
    gc.collect()
    start = tracemalloc.get_traced_memory()[0]
    cache = make_cache("radix", tokens // page + len(talks), page, strict=True)
    for request, talk in enumerate(talks):
        opened = cache.open(request, talk)
        assert opened is not None, "the pool holds all chats"
        cache.grow(request, len(talk))
        cache.commit(request, talk[opened.cached :])
    whole = (tracemalloc.get_traced_memory()[0] - start) / tokens
    tracemalloc.stop()
    return alone, whole


def eviction(leaves: int) -> float:
    """µs to evict one of ``leaves`` leaves of two blocks, all of them used after they were stored."""
    rng = np.random.default_rng(1)
    tree = OwnTree(16)
    keys = rng.integers(0, 49_152, (leaves, 32), dtype=np.int32)
    for key in keys:
        tree.insert(key, tree.slots(32))
    for index in rng.permutation(leaves):
        tree.match(keys[index])
    start = perf_counter()
    for _ in range(EVICTIONS):
        tree.evict(32)
    return (perf_counter() - start) / EVICTIONS * 1e6


def pauses(scale: Scale) -> None:
    """Fill a tree, split and use its nodes, and evict from it, each operation timed alone."""
    rng = np.random.default_rng(1)
    tree = OwnTree(16)

    def timed(what: str, action: Callable[[], Any]) -> None:
        start = thread_time()
        action()
        scale.longest_ms[what] = max(scale.longest_ms.get(what, 0.0), (thread_time() - start) * 1e3)

    for index in range(NODES):
        key = rng.integers(0, 49_152, 16 + NODE_TOKENS, dtype=np.int32)
        key[:16] = index % GROUPS
        slots = tree.slots(len(key))
        timed("insert", lambda key=key, slots=slots: tree.insert(key, slots))  # type: ignore[misc]
        timed("match", lambda key=key: tree.match(key))  # type: ignore[misc]
    scale.tokens, scale.nodes = tree.cached_tokens, sum(1 for _ in tree.tree.walk())
    for node in list(tree.tree.walk())[:GROUPS]:
        timed("lock", lambda node=node: tree.tree.lock(node))  # type: ignore[misc]
        timed("unlock", lambda node=node: tree.tree.unlock(node))  # type: ignore[misc]
    for _ in range(NODES // 400):
        timed("evict", lambda: tree.evict(16 * LONGEST_EVICTION))
