"""Hashes are computed once a session: a turn pays for its new blocks only."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatkv.kvcache import block_hash as hashing
from chatkv.kvcache.block_hash import SessionHashes, block_hash
from chatkv.kvcache.events import EventLog, Int32Array
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.results import Lookup
from chatkv.scheduler.request import Request
from chatkv.scheduler.scheduler import Scheduler
from tests.kvcache.hash.lives import Life, run


def ids(tokens: list[int]) -> Int32Array:
    return np.array(tokens, dtype=np.int32)


def from_scratch(tokens: list[int], size: int, namespace: str) -> list[bytes]:
    out: list[bytes] = []
    for at in range(0, len(tokens) - size + 1, size):
        out.append(block_hash(out[-1] if out else None, ids(tokens[at : at + size]), namespace))
    return out


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from(["", "x"]), st.lists(st.integers(0, 1), max_size=12)
        ),
        max_size=20,
    )
)
def test_whatever_was_asked_before_the_chain_is_the_one_from_scratch(
    asked: list[tuple[str, str, list[int]]],
) -> None:
    hashes = SessionHashes(3, kept=2)
    for session, namespace, tokens in asked:
        assert hashes.chain(session, namespace, ids(tokens)) == from_scratch(tokens, 3, namespace)
        assert len(hashes) <= 2


def test_the_sessions_used_last_are_kept() -> None:
    hashes = SessionHashes(1, kept=2)
    for session in "abc":
        hashes.chain(session, "", ids([1, 2]))
    assert hashes.computed == 6
    hashes.chain("c", "", ids([1, 2, 3]))
    hashes.chain("b", "", ids([1, 2]))
    assert hashes.computed == 7
    hashes.chain("a", "", ids([1, 2]))
    assert hashes.computed == 9


def test_a_conversation_hashes_each_block_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = hashing.chained_hash

    def counted(parent: bytes | None, tokens: bytes, namespace: str) -> bytes:
        calls.append(parent)
        return real(parent, tokens, namespace)

    monkeypatch.setattr(hashing, "chained_hash", counted)
    life = Life(60, block_size=4)
    history = run((1, 10))
    for turn in range(6):
        assert life.cache.peek(history, session="s") == life.prefill(turn, history, session="s")
        for token in range(9):  # an answer, token by token; then the next question
            life.compute(turn, [token])
        life.close(turn)
        assert len(calls) == life.cache.hashes.computed == (len(history) + 9) // 4
        history = [*history, *range(9), *run((turn, 5))]


def test_a_refused_request_that_asks_again_hashes_nothing_anew() -> None:
    life = Life(6, block_size=4)
    life.prefill(0, run((1, 16)), session="a")
    before = life.cache.hashes.computed
    for _ in range(5):
        assert life.allocate(1, run((2, 12)), session="b") is None
    assert life.cache.hashes.computed == before + 3


def test_tokens_that_are_not_the_announced_prompt_are_hashed_as_written() -> None:
    life = Life(9, block_size=4)
    life.allocate(0, [1, 1, 1, 1, 2, 2, 2, 2, 3])
    life.compute(0, [1, 1, 1, 1])
    life.compute(0, [5, 5, 5, 5])
    assert life.cache.peek([1, 1, 1, 1, 5, 5, 5, 5, 0]) == 8
    assert life.cache.peek([1, 1, 1, 1, 2, 2, 2, 2, 0]) == 4


def test_a_request_s_own_hashes_serve_it_whoever_asks_in_between() -> None:
    cache = HashCache(64, 4)
    prompts = [run((n, 23)) for n in range(6)]
    own = [Lookup() for _ in prompts]
    for _ in range(10):  # none of them names a session: they are all of one
        for prompt, lookup in zip(prompts, own, strict=True):
            assert cache.peek(prompt, lookup=lookup) == 0
    assert cache.hashes.computed == 6 * 5
    assert cache.open(0, prompts[0], lookup=own[0]) is not None
    assert cache.grow(0, 28)
    cache.commit(0, [*prompts[0], 7, 7, 7])  # one more block is full
    cache.close(0, "preempted")
    assert cache.peek([*prompts[0], 7, 7, 7, 8], lookup=own[0]) == 24
    assert cache.hashes.computed == 6 * 5 + 2
    assert own[0].hashes == from_scratch([*prompts[0], 7, 7, 7], 4, "")


@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
@pytest.mark.parametrize("watched", [False, True])
def test_requests_that_wait_are_hashed_once(policy: str, watched: bool) -> None:
    cache = HashCache(8, 4, log=EventLog(lambda event: None) if watched else None)
    scheduler = Scheduler(cache, policy=policy, max_running=1)
    for id in range(1, 9):
        scheduler.add(Request(id, "", ids(run((id, 16))), max_tokens=1))
    while scheduler.has_work:
        for work in scheduler.plan().work:
            scheduler.computed(work)
            scheduler.finish(work.request, "finished")
    assert cache.hashes.computed == 8 * 4
