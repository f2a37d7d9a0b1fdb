"""The speed of the prefix cache alone: match, insert and evict on long chats, beside SGLang's.

The workload: ``SESSIONS`` sessions share a system prompt and take turns in rounds; each turn adds a
question and an answer. 12.0 million prompt tokens in all.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.core.peers import PEERS
from chatkv.kvcache.events import Int32Array

SESSIONS, TURNS = 200, 20
SYSTEM, QUESTION, ANSWER = 1000, 100, 100


@dataclass
class ChatRun:
    """µs a turn, the longest single operation, and which part of the prompts' tokens was hit."""

    match_us: float
    insert_us: float
    evict_us: float
    longest_ms: float
    hit_rate: float

    @property
    def sum_us(self) -> float:
        """Match and insert."""
        return self.match_us + self.insert_us


def conversations(seed: int = 0) -> list[Int32Array]:
    """Each session's whole token sequence, int32 [SYSTEM + TURNS * (QUESTION + ANSWER)]."""
    rng = np.random.default_rng(seed)
    system = rng.integers(0, 49_152, SYSTEM, dtype=np.int32)
    own = rng.integers(0, 49_152, (SESSIONS, TURNS * (QUESTION + ANSWER)), dtype=np.int32)
    return [np.concatenate((system, row)) for row in own]


def run_chats(name: str, page_size: int, pool: int | None) -> ChatRun:
    """One pass of the workload through a fresh cache of ``pool`` tokens (None: no limit)."""
    talks = conversations()
    peer = PEERS[name](page_size, sum(map(len, talks)) if pool is None else pool)
    spent = {"match": 0.0, "insert": 0.0, "evict": 0.0}
    longest = 0.0
    hits = prompts = 0
    gc.collect()

    def took(what: str, start: float) -> None:
        nonlocal longest
        time = perf_counter() - start
        spent[what] += time
        longest = max(longest, time)

    for turn in range(TURNS):
        prompt_end = SYSTEM + turn * (QUESTION + ANSWER) + QUESTION
        for index, talk in enumerate(talks):
            prompt = peer.key(talk[: prompt_end - 1].tolist(), str(index))
            whole = peer.key(talk[: prompt_end + ANSWER].tolist(), str(index))
            slots = peer.slots(prompt_end + ANSWER)
            start = perf_counter()
            hit = peer.match(prompt)
            took("match", start)
            hits += hit
            prompts += prompt_end
            if pool is not None:
                short = peer.cached_tokens + prompt_end + ANSWER - hit - pool
                if short > 0 and peer.cached_tokens:
                    start = perf_counter()
                    peer.evict(short)
                    took("evict", start)
            start = perf_counter()
            peer.insert(whole, slots)
            took("insert", start)
    per_turn = 1e6 / (SESSIONS * TURNS)
    return ChatRun(
        spent["match"] * per_turn,
        spent["insert"] * per_turn,
        spent["evict"] * per_turn,
        longest * 1e3,
        hits / prompts,
    )


def middle(runs: Sequence[ChatRun]) -> ChatRun:
    """The median of each figure over ``runs``."""
    return ChatRun(*(median(getattr(run, name) for run in runs) for name in ChatRun.__dataclass_fields__))
