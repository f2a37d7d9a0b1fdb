"""The free queue and the block tree's leaf LRU are the same policy, one request at a time."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.events import Event, EventLog, NodeEvicted, NodeTrimmed
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.radix_cache import RadixCache

SIZE = 2


class Evictions:
    """What was evicted, in order: for each block all tokens from the prompt's start to the block's end."""

    def __init__(self) -> None:
        self.mirror = Mirror()
        self.gone: list[tuple[str, tuple[int, ...]]] = []
        self.log = EventLog(self.see)

    def see(self, event: Event) -> None:
        if isinstance(event, NodeEvicted | NodeTrimmed) and event.reason == "room":
            nodes = [self.mirror.nodes[node] for node in self.mirror.path(event.node)]
            tokens = np.concatenate([node.tokens for node in nodes]).tolist()
            for i in range(len(event.blocks)):
                self.gone.append((nodes[-1].namespace, tuple(tokens[: len(tokens) - i * SIZE])))
        self.mirror.apply(event)


Request = tuple[int, int, list[int], list[int], str, str]
"""Which earlier request it continues, after how many tokens, new tokens, the answer, namespace, end."""

requests = st.tuples(
    st.integers(0, 5),
    st.integers(0, 14),
    st.lists(st.integers(0, 2), min_size=1, max_size=7),
    st.lists(st.integers(0, 1), max_size=5),
    st.sampled_from(["", "", "salt"]),
    st.sampled_from(["finished", "aborted", "preempted"]),
)


def live(cache: KVCache, request: int, prompt: list[int], answer: list[int], space: str, end: str) -> object:
    """One request from opening to closing; what was seen on the way."""
    seen: list[object] = [cache.peek(prompt, space)]
    opened = cache.open(request, prompt, namespace=space)
    seen.append(opened)
    if opened is None:
        return seen
    written = opened.cached
    for tokens in (prompt[written:], *([token] for token in answer)):
        written += len(tokens)
        if not cache.grow(request, written):
            end = "preempted"
            break
        cache.commit(request, tokens)
        # A radix tree may lock more than is used, where an answer is given again: until it needs the room.
        seen.append((cache.free, cache.room, cache.num_blocks - cache.room))
    cache.close(request, end)
    cache.check_integrity()
    return [*seen, written, cache.free, cache.evictable]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 9), st.lists(requests, max_size=25))
def test_hits_and_evictions_are_those_of_the_radix_tree_by_blocks(
    num_blocks: int, trace: list[Request]
) -> None:
    """Nobody says what is cached: a radix tree doesn't cut a node for it, and so counts all of it as used."""
    compare(num_blocks, [(a, b, [10 + i, *new], *rest) for i, (a, b, new, *rest) in enumerate(trace)])


@settings(max_examples=100, deadline=None)
@given(st.lists(requests, max_size=25))
def test_hits_are_the_same_whoever_says_what_again(trace: list[Request]) -> None:
    compare(25 * 14, trace)


def compare(num_blocks: int, trace: list[Request]) -> None:
    here, there = Evictions(), Evictions()
    hashed = HashCache(num_blocks, SIZE, log=here.log)
    radix = RadixCache(num_blocks, SIZE, strict=True, grain="block", log=there.log)
    texts: list[list[int]] = [[]]
    for request, (earlier, kept, fresh, answer, space, end) in zip(itertools.count(), trace, strict=False):
        prompt = texts[-1 - earlier % len(texts)][:kept] + fresh
        texts.append(prompt + answer)
        life = (request, prompt, answer, space, end)
        assert live(hashed, *life) == live(radix, *life)
        assert here.gone == there.gone
