"""Any order of operations, found by hypothesis: the state holds, the records tell it exactly, every read
finds what was written, and nothing is refused that would have fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chatkv.insight.mirror import Mirror, Node
from chatkv.kvcache.cache import REASONS, KVCache, blocks_for
from chatkv.kvcache.errors import CacheError
from chatkv.kvcache.events import Event, EventLog, NodeEvicted, NodeTrimmed
from chatkv.kvcache.eviction import STRATEGIES, Key
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.radix_cache import RadixCache
from tests.insight.test_mirror_against_cache import live_tree, mirrored_tree
from tests.kvcache.memory import Memory, content

ROWS, LONGEST = 6, 100
PICK = st.integers(0, 10**6)


@dataclass
class Request:
    tokens: list[int]
    namespace: str

    @property
    def values(self) -> list[int]:
        return content(self.tokens, self.namespace)


@dataclass
class Looks:
    last: int
    created: int
    hits: int
    priority: int = 0


def order(node: Node, eviction: str) -> Key:
    """Where a leaf stands in the order of eviction, from the mirror alone."""
    looks = Looks(node.last_seq, node.created_seq, node.hits)
    return (int(node.pinned), *STRATEGIES[eviction].key(looks))


class AnyOrder(RuleBasedStateMachine):
    """A small cache; a large ``none`` twin that lives the same lives; a mirror fed by the records."""

    cache: KVCache

    @initialize(
        kind=st.sampled_from(["radix", "radix", "radix", "hash"]),
        block_size=st.sampled_from([1, 3, 4, 16]),
        capacity=st.integers(40, 200),
        strict=st.booleans(),
        grain=st.sampled_from(["node", "block"]),
        eviction=st.sampled_from(sorted(STRATEGIES)),
    )
    def start(
        self, kind: str, block_size: int, capacity: int, strict: bool, grain: str, eviction: str
    ) -> None:
        num_blocks = max(4, capacity // block_size)
        self.mirror = Mirror()
        self.eviction = eviction if kind == "radix" else "lru"
        log = EventLog(self.note)
        if kind == "radix":
            self.cache = RadixCache(
                num_blocks, block_size, strict=strict, grain=grain, eviction=eviction, log=log
            )
        else:
            self.cache = HashCache(num_blocks, block_size, log=log)
        self.twin = NoneCache(ROWS * LONGEST, block_size)
        self.memory, self.twin_memory = Memory(self.cache), Memory(self.twin)
        self.live: dict[int, Request] = {}
        self.past: list[list[int]] = [[]]
        self.next = 1

    def note(self, event: Event) -> None:
        if isinstance(event, NodeEvicted | NodeTrimmed) and event.reason == "room":
            leaves = [n for n in self.mirror.nodes.values() if n.id and not n.children and not n.locks]
            if isinstance(self.cache, RadixCache):
                first = min(order(leaf, self.eviction) for leaf in leaves)
                assert order(self.mirror.nodes[event.node], self.eviction) == first
                assert event.leaves == len(leaves)
        self.mirror.apply(event)

    @property
    def twin_used(self) -> int:
        return self.twin.num_blocks - self.twin.free

    def pick(self, number: int) -> int:
        requests = sorted(self.live)
        return requests[number % len(requests)]

    # --- what may happen --------------------------------------------------------------------------

    @precondition(lambda self: len(self.live) < ROWS)
    @rule(
        pick=PICK,
        cut=st.integers(0, 60),
        more=st.lists(st.integers(0, 2), min_size=1, max_size=24),
        namespace=st.sampled_from(["", "", "", "a"]),
        at_once=st.booleans(),
        known=st.booleans(),
    )
    def open(self, pick: int, cut: int, more: list[int], namespace: str, at_once: bool, known: bool) -> None:
        base = self.past[pick % len(self.past)]
        prompt = base[: cut + 1] if known and base else [*base[:cut], *more]
        request, self.next = self.next, self.next + 1
        looks = live_looks(self.cache)
        expected = self.cache.peek(prompt, namespace)
        opened = self.cache.open(request, prompt, session=str(request % 3), namespace=namespace)
        if opened is None:
            assert self.twin_used + blocks_for(len(prompt), self.cache.block_size) > self.cache.num_blocks
            assert live_looks(self.cache) == looks
            return
        assert opened.cached <= expected < len(prompt)
        assert opened.cached >= expected - self.cache.block_size + 1  # a copy there may be no room for
        self.memory.copy(opened.copies)
        self.live[request] = Request(prompt, namespace)
        self.past.append(prompt)
        assert self.twin.open(request, prompt, namespace=namespace) is not None
        assert self.twin.grow(request, opened.cached)
        self.twin_memory.write(request, 0, self.live[request].values[: opened.cached])
        self.twin.commit(request, prompt[: opened.cached])
        if at_once:
            assert self.make_room(request, len(prompt) - opened.cached), "it was let in, but does not fit"
            self.write(request, len(prompt))

    @precondition(lambda self: self.live)
    @rule(pick=PICK, count=st.integers(0, 30))
    def grow(self, pick: int, count: int) -> None:
        self.make_room(self.pick(pick), count)

    def make_room(self, request: int, count: int) -> bool:
        size, row = self.cache.block_size, self.cache.row(request)
        upto = len(row.tokens) + count
        looks = live_looks(self.cache)
        if self.cache.grow(request, upto):
            assert self.twin.grow(request, upto)
            return True
        need = blocks_for(upto, size) - len(row.blocks)
        assert self.twin_used + need > self.cache.num_blocks
        assert live_looks(self.cache) == looks
        return False

    @precondition(lambda self: self.live)
    @rule(pick=PICK, tokens=st.lists(st.integers(0, 2), min_size=1, max_size=20))
    def commit(self, pick: int, tokens: list[int]) -> None:
        """A chunk of the prompt where there is one left, else sampled tokens."""
        self.go_on(self.pick(pick), tokens)

    @precondition(lambda self: self.live)
    @rule(pick=PICK, past=PICK, count=st.integers(1, 40))
    def say_again(self, pick: int, past: int, count: int) -> None:
        """As an earlier request went on from here, or one that runs at the same time."""
        request = self.pick(pick)
        mine = self.live[request].tokens
        known = [*self.past, *(other.tokens for other in self.live.values())]
        same = [tokens[len(mine) :] for tokens in known if tokens[: len(mine)] == mine]
        tokens = same[past % len(same)][:count]
        if tokens:
            self.go_on(request, tokens)

    def go_on(self, request: int, tokens: list[int]) -> None:
        state, done = self.live[request], len(self.cache.row(request).tokens)
        if done == len(state.tokens):
            state.tokens += tokens[: max(0, LONGEST - done)]
        upto = min(len(state.tokens), done + len(tokens))
        if self.make_room(request, upto - done):
            self.write(request, upto)

    def write(self, request: int, upto: int) -> None:
        state, done = self.live[request], len(self.cache.row(request).tokens)
        values = state.values[done:upto]
        for cache, memory in ((self.cache, self.memory), (self.twin, self.twin_memory)):
            memory.write(request, done, values)
            cache.commit(request, state.tokens[done:upto])

    @precondition(lambda self: self.live)
    @rule(pick=PICK, reason=st.sampled_from(REASONS))
    def close(self, pick: int, reason: str) -> None:
        request = self.pick(pick)
        for cache in (self.cache, self.twin):
            cache.close(request, reason)
        self.past.append(self.live.pop(request).tokens)

    @precondition(lambda self: self.live and len(self.live) < ROWS)
    @rule(pick=PICK)
    def fork(self, pick: int) -> None:
        parent, child = self.pick(pick), self.next
        self.next += 1
        copies = self.cache.fork(parent, child)
        if copies is None:
            filled = blocks_for(len(self.cache.row(parent).tokens), self.cache.block_size)
            assert self.twin_used + filled > self.cache.num_blocks
            return
        self.memory.copy(copies)
        self.twin_memory.copy(self.twin.fork(parent, child) or ())
        self.live[child] = Request(self.live[parent].tokens.copy(), self.live[parent].namespace)

    @precondition(lambda self: self.cache.evictable)
    @rule(chance=st.integers(0, 9))
    def clear(self, chance: int) -> None:
        if chance == 7:  # not too often: most is to be seen in a cache that is full
            assert self.cache.clear() == self.twin.clear() == (not self.live)

    @precondition(lambda self: isinstance(self.cache, RadixCache) and self.cache.tree.total_blocks > 0)
    @rule(pick=PICK, pinned=st.booleans())
    def pin(self, pick: int, pinned: bool) -> None:
        assert isinstance(self.cache, RadixCache)
        ids = sorted(node.id for node in self.cache.tree.walk())
        chosen = ids[pick % len(ids)]
        before = held_by_pins(self.mirror, None)
        try:
            self.cache.pin(chosen, pinned)
        except CacheError:
            assert pinned
            assert held_by_pins(self.mirror, chosen) > self.cache.num_blocks // 2
            assert held_by_pins(self.mirror, None) == before
        else:
            assert self.mirror.nodes[chosen].pinned == pinned

    # --- what must hold ---------------------------------------------------------------------------

    @invariant()
    def everything_is_in_order(self) -> None:
        cache, mirror = self.cache, self.mirror
        cache.check_integrity()
        self.twin.check_integrity()
        assert cache.num_blocks - cache.room <= self.twin_used
        for request, state in self.live.items():
            row = cache.row(request)
            assert row.tokens.array.tolist() == state.tokens[: len(row.tokens)]
            assert row.tokens.array.tolist() == self.twin.row(request).tokens.array.tolist()
            assert self.memory.read(request) == self.twin_memory.read(request)
            assert self.memory.read(request) == state.values[: len(row.tokens)]
        assert mirror.check() == []
        assert mirror.gaps == []
        assert (mirror.free, mirror.evictable, mirror.protected) == counts(cache)
        rows = {id: (row.blocks.array.tolist(), len(row.tokens)) for id, row in cache.rows.items()}
        assert {id: (row.blocks, row.written) for id, row in mirror.rows.items()} == rows
        if isinstance(cache, RadixCache):
            assert mirrored_tree(mirror) == live_tree(cache)
            assert held_by_pins(mirror, None) <= cache.num_blocks // 2

    def teardown(self) -> None:
        for request in list(getattr(self, "live", {})):
            self.cache.close(request, "finished")
            self.cache.check_integrity()
        if hasattr(self, "live"):
            assert self.cache.protected == 0
            assert self.cache.clear()
            assert self.cache.free == self.cache.num_blocks


def counts(cache: KVCache) -> tuple[int, int, int]:
    return cache.free, cache.evictable, cache.protected


def live_looks(cache: KVCache) -> tuple[Any, ...]:
    """All that a refused operation must leave alone, recency included."""
    rows = [(id, row.blocks.array.tolist(), len(row.tokens)) for id, row in cache.rows.items()]
    return counts(cache), rows, live_tree(cache) if isinstance(cache, RadixCache) else (), cache.log.clock


def held_by_pins(mirror: Mirror, extra: int | None) -> int:
    """Blocks of the pinned nodes and all above them."""
    pinned = [node.id for node in mirror.nodes.values() if node.pinned]
    held = {id for node in (*pinned, *([] if extra is None else [extra])) for id in mirror.path(node)}
    return sum(len(mirror.nodes[id].blocks) for id in held)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=130, stateful_step_count=100, deadline=None, derandomize=True)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
class TestAnyOrderAtLength(AnyOrder.TestCase):  # type: ignore[misc,valid-type]
    settings = settings(max_examples=1000, stateful_step_count=100, deadline=None)
