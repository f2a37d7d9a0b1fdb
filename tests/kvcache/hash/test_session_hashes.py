"""Hashes are computed once a session: a turn pays for its new blocks only."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatkv.kvcache import block_hash as hashing
from chatkv.kvcache.block_hash import SessionHashes, block_hash
from chatkv.kvcache.events import Int32Array
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
