"""Several answers to one prompt: they share its blocks, and each has a life of its own."""

from __future__ import annotations

import pytest

from chatkv.insight.mirror import Mirror
from tests.engine.conftest import Tiny
from tests.engine.rig import Rig, expected

PROMPT = list(range(3, 24))
DRAWN = {"temperature": 0.9, "top_p": 0.9, "repetition_penalty": 1.1, "max_tokens": 10, "ignore_stop": True}


def ask(rig: Rig, n: int, prompt: list[int] = PROMPT, **sampling: object) -> list[int]:
    first = rig.ask_ids(prompt, n=n, **sampling)
    return list(range(first, first + n))


def alone(tiny: Tiny, seed: int, prompt: list[int] = PROMPT) -> tuple[int, ...]:
    return Rig(tiny.decoder).answer(prompt, seed=seed, **DRAWN).token_ids


@pytest.mark.parametrize("cache", ["radix", "hash", "none"])
@pytest.mark.parametrize("budget", [6, 64])
def test_each_answer_is_what_its_seed_gives_alone(tiny_llama: Tiny, cache: str, budget: int) -> None:
    rig = Rig(tiny_llama.decoder, cache=cache, max_batch_tokens=budget)
    ids = ask(rig, 3, seed=5, **DRAWN)
    other = rig.ask_ids([9, *PROMPT], max_tokens=6)
    rig.run()
    for seed, id in zip((5, 6, 7), ids, strict=True):
        assert rig.finished[id].token_ids == alone(tiny_llama, seed)
    assert list(rig.finished[other].token_ids) == expected(tiny_llama.reference, [9, *PROMPT], 6)
    first, *rest = (rig.finished[id] for id in ids)
    assert (first.cached, first.computed) == (0, len(PROMPT))
    for done in rest:
        assert (done.cached, done.computed) == (len(PROMPT), 0)
        assert done.copied == (len(PROMPT) if cache == "none" else 1)
    mirror = Mirror()
    mirror.apply_all(rig.events)
    assert mirror.check() == []
    assert mirror.totals.output_tokens == sum(len(done.token_ids) for done in rig.finished.values())


def test_the_prompts_blocks_are_shared(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, block_size=4)
    ids = ask(rig, 4, seed=0, **DRAWN)
    rig.step()
    rows = [rig.cache.row(id).blocks.array[:5].tolist() for id in ids]
    assert rows == [rows[0]] * 4
    assert rig.cache.protected == 5 + 4  # the partly filled last block is each one's own


@pytest.mark.parametrize("cache", ["radix", "hash", "none"])
def test_preempted_and_evicted_answers_stay_right(tiny_llama: Tiny, cache: str) -> None:
    rig = Rig(tiny_llama.decoder, cache=cache, num_blocks=14, block_size=4, max_batch_tokens=16)
    ids = ask(rig, 4, seed=1, **(DRAWN | {"max_tokens": 20}))
    rig.run()
    assert "RequestPreempted" in {type(event).__name__ for event in rig.events}
    for offset, id in enumerate(ids):
        want = Rig(tiny_llama.decoder).answer(PROMPT, seed=1 + offset, **(DRAWN | {"max_tokens": 20}))
        assert rig.finished[id].token_ids == want.token_ids


def test_where_there_is_no_room_to_fork_they_wait_their_turn(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, cache="none", num_blocks=8, block_size=4)
    ids = ask(rig, 3, max_tokens=4)
    rig.run()
    want = expected(tiny_llama.reference, PROMPT, 4)
    assert [list(rig.finished[id].token_ids) for id in ids] == [want] * 3


@pytest.mark.parametrize("stopped", [0, 1, 2])
@pytest.mark.parametrize("steps", [0, 1, 8])
def test_one_is_stopped_and_the_others_go_on(tiny_llama: Tiny, stopped: int, steps: int) -> None:
    rig = Rig(tiny_llama.decoder, max_batch_tokens=8)  # the prompt takes three steps
    ids = ask(rig, 3, seed=5, **DRAWN)
    for _ in range(steps):
        rig.step()
    rig.core.stop(ids[stopped])
    rig.run()
    assert rig.finished[ids[stopped]].reason == "aborted"
    for seed, id in zip((5, 6, 7), ids, strict=True):
        if id != ids[stopped]:
            assert rig.finished[id].token_ids == alone(tiny_llama, seed)
    assert not rig.core._waiting


def test_stopping_all_before_the_prompt_is_computed_leaves_nothing(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, max_batch_tokens=8)
    ids = ask(rig, 3)
    rig.step()
    for id in ids:
        rig.core.stop(id)
    rig.take()
    assert {rig.finished[id].reason for id in ids} == {"aborted"}
    assert not rig.core.has_work
    assert rig.cache.protected == 0


@pytest.mark.parametrize(("n", "reason"), [(0, "error"), (17, "error"), (10**12, "error"), (2, "refused")])
def test_all_that_can_not_run_are_told(tiny_llama: Tiny, n: int, reason: str) -> None:
    rig = Rig(tiny_llama.decoder, max_context=20)
    id = rig.ask_ids(PROMPT, n=n)
    assert {done.reason for done in rig.finished.values()} == {reason}
    assert sorted(rig.finished) == list(range(id, id + (n if n == 2 else 1)))
    assert not rig.core.has_work


def test_a_failing_forward_ends_each_of_them(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder)
    rig.core.runner.run = lambda work, cache, whole: (_ for _ in ()).throw(RuntimeError("no more memory"))  # type: ignore[method-assign]
    ids = ask(rig, 2)
    rig.run()
    assert {rig.finished[id].reason for id in ids} == {"error"}
