"""The sampler against transformers' own logits processors, and against itself in company."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from chatkv.engine.likeliest import likeliest
from chatkv.engine.messages import Sampling
from chatkv.engine.sampling import FIRST_LOOK, Sampler
from tests.engine.conftest import Tiny
from tests.engine.rig import Rig

PROMPT = list(range(3, 23))
VOCAB = 4 * FIRST_LOOK


def transformers_probs(logits: torch.Tensor, ids: list[int], sampling: Sampling) -> torch.Tensor:
    s = sampling
    steps = LogitsProcessorList()
    if s.repetition_penalty != 1:
        steps.append(RepetitionPenaltyLogitsProcessor(s.repetition_penalty))
    steps.append(TemperatureLogitsWarper(s.temperature))
    if s.top_k:
        steps.append(TopKLogitsWarper(s.top_k))
    if s.top_p < 1:
        steps.append(TopPLogitsWarper(s.top_p))
    if s.min_p:
        steps.append(MinPLogitsWarper(s.min_p))
    return steps(torch.tensor([ids]), logits[None].clone())[0].softmax(-1)


def own_probs(logits: torch.Tensor, ids: list[int], sampling: Sampling) -> torch.Tensor:
    sampler = Sampler(sampling, ids)
    logits = sampler._penalized(logits) if sampling.repetition_penalty != 1 else logits
    kept, probs = sampler.filtered(logits)
    out = torch.zeros(len(logits))
    out[kept if kept is not None else slice(None)] = probs.float()
    return out


@pytest.mark.parametrize("scale", [0.3, 4.0])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.4},
        {"top_k": 1},
        {"top_k": 7},
        {"top_k": 10**9},
        {"top_p": 0.001},
        {"top_p": 0.6},
        {"top_p": 0.999},
        {"min_p": 0.2},
        {"min_p": 1.0},
        {"repetition_penalty": 1.3},
        {"repetition_penalty": 0.7},
        {"temperature": 1.7, "top_k": 50, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.2},
    ],
)
def test_the_distribution_is_transformers_own(options: dict[str, Any], scale: float) -> None:
    sampling = Sampling(**{"temperature": 1.0, **options})
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        logits = torch.randn(VOCAB, generator=generator) * scale
        ids = torch.randint(VOCAB, (30,), generator=generator).tolist()
        before = logits.clone()
        own, theirs = own_probs(logits, ids, sampling), transformers_probs(logits, ids, sampling)
        assert torch.equal(own > 0, theirs > 0)
        torch.testing.assert_close(own, theirs, atol=1e-6, rtol=1e-4)
        assert torch.equal(logits, before)


def test_presence_and_frequency_count_the_answer_only() -> None:
    sampler = Sampler(Sampling(presence_penalty=0.5, frequency_penalty=0.25), [4, 4, 4])
    logits = torch.arange(6.0)
    logits[4] = 10.0
    want = logits.clone()
    drawn = []
    for _ in range(40):  # 4 goes on until its counts have pulled it below 5
        want_now = want.clone()
        for token in set(drawn):
            want_now[token] -= 0.25 * drawn.count(token) + 0.5
        torch.testing.assert_close(sampler._penalized(logits), want_now)
        drawn.append(sampler.draw(logits))
        assert drawn[-1] == int(want_now.argmax())
    assert {4, 5} <= set(drawn)


def test_repetition_counts_prompt_and_answer() -> None:
    logits = torch.tensor([2.0, 1.9, 1.8, -1.0])
    sampler = Sampler(Sampling(repetition_penalty=2.0), [0])
    assert [sampler.draw(logits) for _ in range(3)] == [1, 2, 0]
    torch.testing.assert_close(sampler._penalized(logits), torch.tensor([1.0, 0.95, 0.9, -1.0]))


def test_draws_follow_the_probabilities() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    sampler = Sampler(Sampling(temperature=1.0, top_k=3, seed=1))
    count = 4000
    drawn = torch.bincount(torch.tensor([sampler.draw(logits) for _ in range(count)]), minlength=4)
    want = torch.tensor([4 / 9, 3 / 9, 2 / 9, 0]) * count
    chi = ((drawn[:3] - want[:3]) ** 2 / want[:3]).sum()
    assert drawn[3] == 0
    assert chi < 13.8  # one in a thousand exceeds it, and this seed does not


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.9, "top_p": 0.9},
        {"temperature": 1.2, "top_k": 20, "repetition_penalty": 1.2},
        {"temperature": 1.0, "min_p": 0.05, "presence_penalty": 0.6, "frequency_penalty": 0.3},
        {"temperature": 0.0, "repetition_penalty": 1.3, "frequency_penalty": 0.2},
    ],
)
def test_a_text_depends_on_its_own_seed_only(tiny_llama: Tiny, options: dict[str, Any]) -> None:
    mine = {**options, "seed": 7, "max_tokens": 16}
    alone = Rig(tiny_llama.decoder).answer(PROMPT, **mine).token_ids
    crowd = Rig(tiny_llama.decoder, max_batch_tokens=16, num_blocks=30)
    others = [crowd.ask_ids([40 + k, *PROMPT], temperature=1.0, seed=k, max_tokens=20) for k in range(2)]
    crowd.step()
    id = crowd.ask_ids(PROMPT, **mine)
    for k in range(3):
        crowd.ask_ids([50 + k, *PROMPT], **{**mine, "seed": k})
    crowd.run()
    assert crowd.finished[id].token_ids == alone
    assert crowd.finished[others[0]].token_ids
    if options["temperature"]:
        assert Rig(tiny_llama.decoder).answer(PROMPT, **{**mine, "seed": 8}).token_ids != alone


def test_log_probabilities_are_the_models_own(tiny_llama: Tiny) -> None:
    sampling = {"temperature": 0.7, "top_p": 0.8, "repetition_penalty": 1.5, "seed": 3, "max_tokens": 6}
    plain = Rig(tiny_llama.decoder).answer(PROMPT, **sampling)
    done = Rig(tiny_llama.decoder).answer(PROMPT, logprobs=4, **sampling)
    assert plain.logprobs == ()
    assert done.token_ids == plain.token_ids
    assert [entry.token_id for entry in done.logprobs] == list(done.token_ids)
    ids = [*PROMPT, *done.token_ids]
    with torch.no_grad():
        want = tiny_llama.reference(torch.tensor([ids])).logits[0].log_softmax(-1)
    for at, entry in enumerate(done.logprobs, len(PROMPT) - 1):
        assert entry.logprob == pytest.approx(float(want[at, entry.token_id]), abs=1e-4)
        values, tokens = want[at].topk(4)
        assert [c.token_id for c in entry.top] == tokens.tolist()
        assert [c.logprob for c in entry.top] == pytest.approx(values.tolist(), abs=1e-4)
        assert entry.rank == int((want[at] > want[at, entry.token_id]).sum()) + 1
        assert entry.text == str(entry.token_id)
    zero = Rig(tiny_llama.decoder).answer(PROMPT, logprobs=0, **sampling)
    assert [entry.top for entry in zero.logprobs] == [()] * 6


@pytest.mark.parametrize(
    "options",
    [
        {"min_p": -0.1},
        {"min_p": float("nan")},
        {"top_p": float("nan")},
        {"repetition_penalty": 0.0},
        {"repetition_penalty": float("inf")},
        {"presence_penalty": 11.0},
        {"frequency_penalty": float("nan")},
        {"logprobs": -1},
        {"logprobs": 21},
        {"stop": ("",)},
        {"stop": ("x" * 257,)},
        {"stop": ("x",) * 17},
    ],
)
def test_each_bad_value_is_named_in_one_line(options: dict[str, Any]) -> None:
    problem = Sampling(**options).problem()
    assert problem is not None
    assert next(iter(options)) in problem
    assert "\n" not in problem
    assert Sampling(min_p=1.0, repetition_penalty=1.2, stop=("a",), logprobs=20).problem() is None


@pytest.mark.parametrize("size", [1, 5, 16, 97, 49152])
def test_the_likeliest_is_the_first_of_the_largest(size: int) -> None:
    for seed in range(5):
        logits = torch.randn(size, generator=torch.Generator().manual_seed(seed)).mul_(4).round_()
        assert likeliest(logits) == int((logits == logits.max()).nonzero()[0])
        assert likeliest(torch.full((size,), float("-inf"))) == 0
        logits[size - 1 - seed % size] = float("nan")
        assert likeliest(logits) == -1


def test_without_kernels_torch_finds_the_likeliest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatkv.engine.likeliest.kernels", lambda dtype: None)
    assert likeliest(torch.tensor([1.0, 3.0, 2.0])) == 1
    assert likeliest(torch.tensor([1.0, float("nan"), 2.0])) == -1
