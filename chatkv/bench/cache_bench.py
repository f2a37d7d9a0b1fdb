"""The speed of the prefix cache alone: match, insert and evict on long chats, beside SGLang's.

The workload: ``SESSIONS`` sessions share a system prompt and take turns in rounds; each turn adds a
question and an answer. 12.0 million prompt tokens in all.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from chatkv.bench.sglang_peer import SGLangTree
from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.radix import RadixTree

SESSIONS, TURNS = 200, 20
SYSTEM, QUESTION, ANSWER = 1000, 100, 100


class Peer(Protocol):
    """A tree to measure. Keys and slots are made outside the timed part."""

    def key(self, tokens: Any) -> Any: ...  # noqa: D102
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

    def key(self, tokens: Any) -> Int32Array:
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
        self.tree.evict(-(-tokens // self.tree.block_size))

    @property
    def cached_tokens(self) -> int:
        """Tokens in the tree."""
        return self.tree.total_tokens


PEERS: dict[str, Callable[[int], Peer]] = {"chatkv": OwnTree, "sglang": SGLangTree}


@dataclass
class ChatRun:
    """µs a turn, and what was hit."""

    match_us: float
    insert_us: float
    evict_us: float
    longest_ms: float
    hit_rate: float


def conversations(seed: int = 0) -> list[Int32Array]:
    """Each session's whole token sequence, int32 [SYSTEM + TURNS * (QUESTION + ANSWER)]."""
    rng = np.random.default_rng(seed)
    system = rng.integers(0, 49_152, SYSTEM, dtype=np.int32)
    own = rng.integers(0, 49_152, (SESSIONS, TURNS * (QUESTION + ANSWER)), dtype=np.int32)
    return [np.concatenate((system, row)) for row in own]


def run_chats(name: str, page_size: int, pool: int | None) -> ChatRun:
    """One pass of the workload through a fresh tree of ``pool`` tokens (None: no limit)."""
    peer = PEERS[name](page_size)
    talks = conversations()
    spent = {"match": 0.0, "insert": 0.0, "evict": 0.0}
    longest = 0.0
    hits = prompts = 0
    gc.collect()

    def timed(what: str, action: Callable[[], Any]) -> Any:
        nonlocal longest
        start = perf_counter()
        result = action()
        took = perf_counter() - start
        spent[what] += took
        longest = max(longest, took)
        return result

    for turn in range(TURNS):
        prompt_end = SYSTEM + turn * (QUESTION + ANSWER) + QUESTION
        for talk in talks:
            prompt = peer.key(talk[: prompt_end - 1].tolist())
            whole = peer.key(talk[: prompt_end + ANSWER].tolist())
            slots = peer.slots(prompt_end + ANSWER)
            hit = timed("match", lambda prompt=prompt: peer.match(prompt))  # type: ignore[misc]
            hits += hit
            prompts += prompt_end
            if pool is not None:
                short = peer.cached_tokens + prompt_end + ANSWER - hit - pool
                if short > 0:
                    timed("evict", lambda short=short: peer.evict(short))  # type: ignore[misc]
            timed("insert", lambda whole=whole, slots=slots: peer.insert(whole, slots))  # type: ignore[misc]
    per_turn = 1e6 / (SESSIONS * TURNS)
    return ChatRun(
        spent["match"] * per_turn,
        spent["insert"] * per_turn,
        spent["evict"] * per_turn,
        longest * 1e3,
        hits / prompts,
    )


@dataclass
class Scale:
    """How the tree of chatkv grows: bytes a cached token, µs an eviction by number of leaves, pauses."""

    bytes_per_token: dict[int, float] = field(default_factory=dict)
    evict_us: dict[int, float] = field(default_factory=dict)
    longest_ms: float = 0.0
    tokens: int = 0
    nodes: int = 0


def run_scale() -> Scale:
    """Memory, eviction cost and the longest single operation at 10^6 tokens in 10^4 nodes."""
    scale = Scale()
    for page in (1, 16):
        talks = conversations()
        tree = OwnTree(page)
        gc.collect()
        tracemalloc.start()
        for talk in talks:
            tree.insert(talk, tree.slots(len(talk)))
        scale.bytes_per_token[page] = tracemalloc.get_traced_memory()[0] / tree.cached_tokens
        tracemalloc.stop()
    rng = np.random.default_rng(1)
    for leaves in (1_000, 10_000, 100_000):
        tree = OwnTree(16)
        for _ in range(leaves):
            tree.insert(rng.integers(0, 49_152, 32, dtype=np.int32), tree.slots(32))
        start = perf_counter()
        for _ in range(1_000):
            tree.evict(32)
        scale.evict_us[leaves] = (perf_counter() - start) * 1e3
    tree = OwnTree(16)
    longest = 0.0
    for i in range(10_000):
        tokens = rng.integers(0, 49_152, 112, dtype=np.int32)
        tokens[:16] = i % 100
        start = perf_counter()
        tree.insert(tokens, tree.slots(112))
        tree.match(tokens[:64])
        longest = max(longest, perf_counter() - start)
    scale.longest_ms, scale.tokens = longest * 1e3, tree.cached_tokens
    scale.nodes = sum(1 for _ in tree.tree.walk())
    return scale


def middle(runs: list[ChatRun]) -> ChatRun:
    """The median of each figure over ``runs``."""
    return ChatRun(*(median(getattr(run, name) for run in runs) for name in ChatRun.__dataclass_fields__))
