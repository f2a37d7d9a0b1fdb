"""B27: another answer to the same prompt shares full blocks and copies the partial one; in every cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.cache import Copy, KVCache
from chatkv.kvcache.errors import DuplicateRequestError, IntegrityError, UnknownRequestError
from chatkv.kvcache.events import EventLog
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.radix_cache import RadixCache

Make = Callable[[EventLog], KVCache]
CACHES: dict[str, Make] = {
    "hash": lambda log: HashCache(12, 4, log=log),
    "radix strict": lambda log: RadixCache(12, 4, strict=True, log=log),
    "radix": lambda log: RadixCache(12, 4, log=log),
    "none": lambda log: NoneCache(12, 4, log=log),
}
PROMPT = list(range(10))
"""Two full blocks and two tokens."""


@pytest.fixture(params=CACHES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mirror() -> Mirror:
    return Mirror()


@pytest.fixture
def cache(name: str, mirror: Mirror) -> KVCache:
    cache = CACHES[name](EventLog(mirror.apply))
    assert cache.open(0, PROMPT, session="s") is not None
    assert cache.grow(0, len(PROMPT) + 3)
    cache.commit(0, PROMPT)
    return cache


def check(cache: KVCache, mirror: Mirror) -> None:
    cache.check_integrity()
    assert mirror.check() == []
    assert (mirror.free, mirror.evictable, mirror.protected) == (cache.free, cache.evictable, cache.protected)
    assert {r: (row.blocks, row.written) for r, row in mirror.rows.items()} == {
        r: (row.blocks.array.tolist(), len(row.tokens)) for r, row in cache.rows.items()
    }


def test_b27_full_blocks_are_shared_the_partial_one_is_copied(
    cache: KVCache, mirror: Mirror, name: str
) -> None:
    copies = cache.fork(0, 1)
    check(cache, mirror)
    assert copies is not None
    mine, theirs = cache.row(0).blocks.array.tolist(), cache.row(1).blocks.array.tolist()
    assert (len(mine), len(theirs)) == (4, 3)
    shared = 0 if name == "none" else 2
    assert theirs[:shared] == mine[:shared]
    assert not set(theirs[shared:]) & set(mine)
    assert cache.pool.refs[mine].tolist() == [2] * shared + [1] * (4 - shared)
    filled = [4, 4, 2]
    assert copies == tuple(Copy(mine[i], theirs[i], filled[i]) for i in range(shared, 3))
    assert cache.row(1).tokens.array.tolist() == PROMPT


def test_b27_writing_in_one_never_changes_the_other(cache: KVCache, mirror: Mirror) -> None:
    memory = np.zeros((12, 4), dtype=int)

    def write(request: int, tokens: list[int]) -> None:
        start = len(cache.row(request).tokens)
        assert cache.grow(request, start + len(tokens))
        for at, token in enumerate(tokens, start=start):
            memory[cache.row(request).blocks.array[at // 4], at % 4] = token
        cache.commit(request, tokens)
        check(cache, mirror)

    def read(request: int) -> list[int]:
        row = cache.row(request)
        return memory[row.blocks.array].ravel()[: len(row.tokens)].tolist()

    for at, token in enumerate(PROMPT):
        memory[cache.row(0).blocks.array[at // 4], at % 4] = token
    for child in (1, 2):
        copies = cache.fork(0, child)
        assert copies is not None
        for copy in copies:
            memory[copy.target, : copy.tokens] = memory[copy.source, : copy.tokens]
        check(cache, mirror)
        if cache.kind == "none":
            break  # without sharing there is room for one
    answers = {0: [20, 21, 22], 1: [30, 31, 32], 2: [20, 21, 22]}
    for request in list(cache.rows):
        write(request, answers[request])
    for request in cache.rows:
        assert read(request) == PROMPT + answers[request]
    for request in list(cache.rows):
        cache.close(request, "finished")
        check(cache, mirror)
    assert cache.protected == 0


def test_b27_a_child_outlives_its_parent(cache: KVCache, mirror: Mirror, name: str) -> None:
    assert cache.fork(0, 1) is not None
    cache.close(0, "finished")
    check(cache, mirror)
    assert cache.row(1).tokens.array.tolist() == PROMPT
    assert cache.protected == 3
    cache.close(1, "finished")
    check(cache, mirror)
    assert cache.peek(PROMPT) == {"none": 0, "radix": 9}.get(name, 8)


def test_without_room_for_the_copy_nothing_changes(cache: KVCache, mirror: Mirror) -> None:
    assert cache.open(5, list(range(50, 50 + 8 * 4))) is not None
    assert cache.grow(5, 8 * 4)
    before, seq = cache.free, mirror.seq
    assert before == 0
    assert cache.fork(0, 1) is None
    assert (cache.free, mirror.seq) == (before, seq)
    assert 1 not in cache.rows
    check(cache, mirror)


def test_an_unknown_parent_or_a_known_child_is_refused(cache: KVCache, mirror: Mirror) -> None:
    with pytest.raises(UnknownRequestError, match="request 7"):
        cache.fork(7, 8)
    with pytest.raises(DuplicateRequestError, match="request 0"):
        cache.fork(0, 0)
    check(cache, mirror)


def test_integrity_sees_a_shared_block_that_would_be_written(cache: KVCache) -> None:
    assert cache.fork(0, 1) is not None
    mine, theirs = cache.row(0).blocks.array, cache.row(1).blocks.array
    cache.pool.share(mine[2:3])
    cache.pool.drop(theirs[2:3])
    theirs[2] = mine[2]
    with pytest.raises(IntegrityError, match="would write into blocks that are not its alone"):
        cache.check_integrity()
