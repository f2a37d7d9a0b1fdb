"""How requests end, and that the trouble of one stays its own."""

from __future__ import annotations

import pytest
import torch

from chatkv.engine.messages import Sampling, Turn
from chatkv.engine.sampling import Sampler
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.scheduler.events import PinRefused
from tests.engine.conftest import Tiny
from tests.engine.rig import NumberCodec, Rig, expected

PROMPT = list(range(3, 23))


def test_reasons_stop_length_and_context(tiny_llama: Tiny) -> None:
    answer = expected(tiny_llama.reference, PROMPT, 8)
    codec = NumberCodec()
    codec.stop_ids = frozenset({answer[3]})
    rig = Rig(tiny_llama.decoder, codec, max_context=40)
    stopped = rig.answer(PROMPT, max_tokens=30)
    first = answer.index(answer[3])
    assert (stopped.reason, list(stopped.token_ids)) == ("stop", answer[: first + 1])
    assert stopped.text.split() == [str(t) for t in answer[:first]]
    assert rig.answer(PROMPT, max_tokens=2, ignore_stop=True).reason == "length"
    full = rig.answer(PROMPT, max_tokens=100, ignore_stop=True)
    assert full.reason == "context"
    assert full.prompt_tokens + len(full.token_ids) == 40
    assert "40 tokens" in full.message


def test_what_can_never_run_is_refused_with_numbers_and_others_go_on(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, num_blocks=8, block_size=4, max_context=60)
    running = rig.ask_ids(PROMPT[:10], max_tokens=5)
    rig.step()
    too_long = rig.ask_ids([5] * 60, "a")
    too_large = rig.ask_ids([5] * 33, "b")
    assert rig.finished[too_long].reason == rig.finished[too_large].reason == "refused"
    assert "60 tokens" in rig.finished[too_long].message
    assert "9 blocks" in rig.finished[too_large].message
    assert "has 8" in rig.finished[too_large].message
    rig.run()
    assert rig.finished[running].reason == "length"


def test_an_answer_that_fills_the_pool_ends_and_keeps_what_it_said(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, num_blocks=8, block_size=4)
    done = rig.answer(PROMPT, max_tokens=100)
    assert done.reason == "cache full"
    assert "8 blocks of 4" in done.message
    assert len(done.token_ids) == 8 * 4 - len(PROMPT) + 1
    assert list(done.token_ids) == expected(tiny_llama.reference, PROMPT, len(done.token_ids))


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_sampling_ends_that_request_only(tiny_llama: Tiny, bad: dict[str, float], word: str) -> None:
    rig = Rig(tiny_llama.decoder)
    good = rig.ask_ids(PROMPT, max_tokens=3)
    done = rig.finished[rig.ask_ids(PROMPT, **bad)]
    assert done.reason == "error"
    assert word in done.message
    rig.run()
    assert rig.finished[good].reason == "length"


def test_what_can_not_be_sampled_ends_alone(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder)
    good, bad = rig.ask_ids(PROMPT, max_tokens=3), rig.ask_ids([9, *PROMPT], max_tokens=3)

    def broken(logits: torch.Tensor) -> int:
        raise RuntimeError("probability tensor contains nan")

    rig.core.live[bad].draw = broken  # type: ignore[method-assign]
    rig.run()
    assert (rig.finished[bad].reason, rig.finished[good].reason) == ("error", "length")
    assert "nan" in rig.finished[bad].message


def test_a_tiny_temperature_is_greedy_and_nan_is_refused(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder)
    assert rig.answer(PROMPT, temperature=1e-38, max_tokens=4).token_ids == tuple(
        expected(tiny_llama.reference, PROMPT, 4)
    )
    with pytest.raises(ValueError, match="not numbers"):
        Sampler(Sampling()).draw(torch.tensor([0.0, float("nan")]))


def test_a_prompt_that_can_not_be_tokenised_ends_alone(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder)
    done = rig.finished[rig.ask([Turn("user", "no numbers")])]
    assert done.reason == "error"
    assert "ValueError" in done.message


def test_a_failing_forward_ends_those_who_took_part_and_leaves_nothing_findable(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder)
    rig.answer(PROMPT, max_tokens=4)
    run = rig.core.runner.run
    rig.core.runner.run = lambda work, cache, whole: (_ for _ in ()).throw(RuntimeError("no more memory"))  # type: ignore[method-assign]
    done = rig.answer([*PROMPT[:18], 90, 91, 92, 93], max_tokens=4)
    assert (done.reason, done.token_ids) == ("error", ())
    assert "no more memory" in done.message
    rig.core.runner.run = run  # type: ignore[method-assign]
    # The slots that were to be copied hold nothing: they must not be found now.
    again = rig.answer([*PROMPT[:18], 90, 91, 92, 93], max_tokens=4)
    assert list(again.token_ids) == expected(tiny_llama.reference, [*PROMPT[:18], 90, 91, 92, 93], 4)


def test_stop_in_any_state_and_twice(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, max_batch_tokens=8)
    waiting, chunked = rig.ask_ids(PROMPT), rig.ask_ids([9, *PROMPT])
    rig.core.stop(waiting)
    rig.step()
    rig.core.stop(chunked)
    rig.core.stop(chunked)
    rig.core.stop(999)
    rig.take()
    assert {rig.finished[i].reason for i in (waiting, chunked)} == {"aborted"}
    assert not rig.core.has_work
    assert rig.finished[chunked].computed == 8
    decoding = rig.ask_ids(PROMPT)
    for _ in range(6):
        rig.step()
    rig.core.stop(decoding)
    rig.take()
    said = rig.finished[decoding].token_ids
    assert list(said) == expected(tiny_llama.reference, PROMPT, len(said))
    # A stopped answer is continued from the cache: all but its last token has KV.
    follow = rig.answer([*PROMPT, *said, 4], max_tokens=1)
    assert follow.cached == len(PROMPT) + len(said) - 1


def test_clearing_waits_until_nobody_runs(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder)
    rig.ask_ids(PROMPT, max_tokens=3)
    rig.step()
    rig.core.clear_cache()
    rig.step()
    assert rig.cache.evictable + rig.cache.protected > 0
    rig.run()
    assert rig.cache.free == rig.cache.num_blocks
    stopped = rig.ask_ids(PROMPT)
    rig.step()
    rig.core.clear_cache()
    rig.core.stop(stopped)
    assert rig.cache.free == rig.cache.num_blocks


def test_sampling_depends_on_the_own_seed_only(tiny_llama: Tiny) -> None:
    alone = Rig(tiny_llama.decoder)
    options = {"temperature": 0.9, "top_p": 0.9, "top_k": 40, "seed": 7, "max_tokens": 12}
    text = alone.answer(PROMPT, **options).token_ids
    crowd = Rig(tiny_llama.decoder, max_batch_tokens=16)
    mine = crowd.ask_ids(PROMPT, **options)
    for seed in range(3):
        crowd.ask_ids([40 + seed, *PROMPT], **{**options, "seed": seed})
    crowd.run()
    assert crowd.finished[mine].token_ids == text
    assert alone.answer(PROMPT, **{**options, "seed": 8}).token_ids != text


def test_top_p_and_top_k_keep_what_they_say() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    for sampling, allowed in (
        (Sampling(temperature=1, top_p=0.7, seed=0), {0, 1}),
        (Sampling(temperature=1, top_p=0.4, seed=0), {0}),
        (Sampling(temperature=1, top_k=3, seed=0), {0, 1, 2}),
        (Sampling(temperature=1, seed=0), {0, 1, 2, 3}),
        (Sampling(temperature=0), {0}),
    ):
        sampler = Sampler(sampling)
        assert {sampler.draw(logits) for _ in range(300)} == allowed


def test_a_pin_is_set_or_refused_in_words(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, num_blocks=8, block_size=4)
    rig.answer(PROMPT, max_tokens=2)
    assert isinstance(rig.cache, RadixCache)
    node = next(iter(rig.cache.tree.walk())).id
    rig.core.pin(999, True)
    rig.core.pin(node, True)
    refused = [event for event in rig.outbox.events if isinstance(event, PinRefused)]
    assert [event.node for event in refused] == [999, node]
    assert "999 is not in the tree" in refused[0].reason
    assert "at most 4 may be" in refused[1].reason


def test_what_fails_behind_the_sampling_ends_one_request(
    tiny_llama: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tiny_llama.decoder)
    broken, other = rig.ask_ids([5, 6, 7], max_tokens=4), rig.ask_ids([8, 9], max_tokens=4)

    def fail(token: int, end: bool) -> str:
        raise LookupError("no such piece")

    monkeypatch.setattr(rig.core.live[broken], "push", fail)
    rig.run()
    assert rig.finished[broken].reason == "error"
    assert "no such piece" in rig.finished[broken].message
    assert list(rig.finished[other].token_ids) == expected(tiny_llama.reference, [8, 9], 4)


def test_unfilled_slots_are_counted(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, block_size=4)
    rig.ask_ids([5, 6, 7, 8, 9], max_tokens=4)
    rig.step()
    assert rig.cache.unfilled == 3
    assert rig.core.stats.unfilled_slots == 3
    rig.step()
    assert rig.cache.unfilled == 2
    rig.run()
    assert rig.cache.unfilled == 0
