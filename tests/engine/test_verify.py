"""A finished answer computed again without the cache: what agrees, and what is caught."""

from __future__ import annotations

import pytest
import torch

from chatkv.engine import verifier
from chatkv.engine import verify as verification
from chatkv.engine.messages import Verified
from chatkv.model.decoder import Decoder
from tests.engine.conftest import Tiny
from tests.engine.rig import Rig, expected

PROMPT = list(range(3, 40))


def verify(rig: Rig, id: int) -> Verified:
    rig.core.verify(id)
    rig.take()
    rig.run()
    return rig.verified[-1]


@pytest.mark.parametrize("cache", ["radix", "hash", "none"])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_a_right_cache_agrees_everywhere(tiny_llama: Tiny, cache: str, block_size: int) -> None:
    rig = Rig(
        tiny_llama.decoder,
        cache=cache,
        block_size=block_size,
        num_blocks=768 // block_size,
        max_batch_tokens=24,
    )
    first = rig.answer(PROMPT, max_tokens=9)
    done = rig.answer([*PROMPT, *first.token_ids, 50, 51], max_tokens=40)
    seen, used = len(rig.events), (rig.cache.free, rig.cache.evictable)
    found = verify(rig, done.request)
    assert found.request == done.request
    assert found.positions == 40
    assert found.differing is None
    assert found.max_difference < 1e-4
    assert (found.max_difference > 0) == (cache != "none")  # with nothing cached, both are one run
    written = done.prompt_tokens + 39
    assert found.reused == {"radix": written, "hash": written // block_size * block_size, "none": 0}[cache]
    assert "same greedy token" in found.message
    # It reads only: nothing is opened, stored or locked for it, and no step is counted.
    assert rig.events[seen:] == []
    assert (rig.cache.free, rig.cache.evictable) == used


@pytest.mark.parametrize("where", [0, 20, 41])
@pytest.mark.parametrize("cache", ["radix", "hash"])
def test_a_corrupted_block_is_caught(tiny_llama: Tiny, where: int, cache: str) -> None:
    """In the system prompt, behind it, and in the answer: each shows from the next token of the answer on."""
    rig = Rig(tiny_llama.decoder, cache=cache, block_size=4)
    done = rig.answer(PROMPT, max_tokens=16)
    clean = verify(rig, done.request)
    held, blocks = rig.cache.locate([*PROMPT, *done.token_ids[:-1]])
    assert held >= 48
    torch.manual_seed(0)
    block = rig.core.runner.kv[:, int(blocks[where // 4])]
    block[:, :, where % 4] += 3 * torch.randn_like(block[:, :, where % 4])
    found = verify(rig, done.request)
    assert found.max_difference > 1000 * clean.max_difference
    assert found.max_position >= max(where - len(PROMPT) + 1, 0)
    assert found.differing is not None
    assert found.differing.position >= max(where - len(PROMPT) + 1, 0)
    cold = expected(tiny_llama.reference, PROMPT, 16)
    assert found.differing.cold_id == cold[found.differing.position]
    assert found.differing.cached_id != found.differing.cold_id
    assert found.differing.margin > 0
    assert f"token {found.differing.position} differs" in found.message


def test_a_slot_that_is_not_a_number_is_caught(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder)
    done = rig.answer(PROMPT, max_tokens=3)
    rig.core.runner.kv[:, int(rig.cache.locate(PROMPT)[1][2])] = float("nan")
    assert verify(rig, done.request).max_difference == float("inf")


def test_what_was_evicted_is_computed_behind_what_is_left(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, num_blocks=20, block_size=4)
    done = rig.answer(PROMPT, max_tokens=8)
    rig.answer([9] * 60, max_tokens=4)
    found = verify(rig, done.request)
    assert found.reused < done.prompt_tokens
    assert (found.positions, found.differing) == (8, None)
    assert found.max_difference < 1e-4


def test_sampled_answers_and_forks_are_verified_too(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, verify=True)
    id = rig.ask_ids(PROMPT, n=3, temperature=1.0, seed=2, max_tokens=7)
    rig.run()
    assert sorted(found.request for found in rig.verified) == [id, id + 1, id + 2]
    for found in rig.verified:
        assert (found.positions, found.differing) == (7, None)


def test_others_go_on_meanwhile(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, max_batch_tokens=32)
    done = rig.answer(PROMPT, max_tokens=20)
    other = rig.ask_ids([8, *PROMPT], max_tokens=12)
    rig.core.verify(done.request)
    steps = 0
    while other not in rig.finished:
        rig.step()
        steps += 1
    assert steps == 2 + 11  # two for its prompt, and none was lost
    assert list(rig.finished[other].token_ids) == expected(tiny_llama.reference, [8, *PROMPT], 12)
    assert rig.verified
    assert rig.verified[0].differing is None


def test_what_can_not_be_verified_says_why(tiny_llama: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "ANSWERS_KEPT", 2)
    rig = Rig(tiny_llama.decoder)
    running = rig.ask_ids(PROMPT, max_tokens=3)
    for id in (running, 99):
        found = verify(rig, id) if id == 99 else (rig.core.verify(id), rig.take(), rig.verified[-1])[-1]
        assert (found.request, found.positions) == (id, 0)
        assert "ask again" in found.message
    for _ in range(2):
        rig.answer(PROMPT, max_tokens=2)
    assert verify(rig, running).positions == 0

    def broken(size: int, block_size: int) -> torch.Tensor:
        raise MemoryError("not enough")

    monkeypatch.setattr(rig.core.runner.decoder, "new_kv", broken)
    last = max(rig.finished)
    found = verify(rig, last)
    assert (found.request, found.positions) == (last, 0)
    assert "not enough" in found.message
    assert rig.answer(PROMPT, max_tokens=2).reason == "length"


def test_rounding_is_named_where_there_is_some(tiny_llama: Tiny) -> None:
    for dtype, named in ((torch.bfloat16, True), (torch.float32, False)):
        rig = Rig(Decoder.load(tiny_llama.folder, dtype))
        assert ("--dtype fp32" in verify(rig, rig.answer(PROMPT, max_tokens=3).request).message) is named


def test_memory_that_is_not_there_is_not_taken(tiny_llama: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tiny_llama.decoder)
    done = rig.answer(PROMPT, max_tokens=3)
    monkeypatch.setattr(verification, "free_memory", lambda device: 1000)
    found = verify(rig, done.request)
    assert found.positions == 0
    assert "MiB are free" in found.message
    assert "EngineError" not in found.message


def test_the_line_is_bounded_and_holds_an_answer_once(
    tiny_llama: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier, "MAX_ASKED", 2)
    rig = Rig(tiny_llama.decoder)
    done = [rig.answer(PROMPT, max_tokens=2).request for _ in range(3)]
    for request in (done[0], done[0], done[1], done[0], done[2]):
        rig.core.verify(request)
    rig.take()
    rig.run()
    told = {found.request: found for found in rig.verified}
    assert [found.request for found in rig.verified] == [done[2], done[0], done[1]]
    assert "in line" in told[done[2]].message
    assert told[done[0]].positions == told[done[1]].positions == 2
    assert verify(rig, done[2]).positions == 2
