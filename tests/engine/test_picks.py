"""A greedy step's ids can be found where the logits are: then only they are copied, and they are the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from chatkv.engine.messages import Sampling
from chatkv.engine.sampling import Sampler
from tests.engine.conftest import Tiny
from tests.engine.rig import Rig

PLAIN: list[dict[str, Any]] = [{}, {"seed": 3}, {"stop": ("5 ",)}, {"top_p": 0.5, "top_k": 3}]
OTHERS: list[dict[str, Any]] = [
    {"logprobs": 2},
    {"repetition_penalty": 1.3},
    {"presence_penalty": 0.5},
    {"frequency_penalty": 0.5},
    {"temperature": 0.8, "seed": 1},
]


def watched(tiny_llama: Tiny, picks: bool) -> tuple[Rig, list[torch.Tensor]]:
    """A rig, and what its runner hands out each step."""
    rig = Rig(tiny_llama.decoder, picks=picks)
    steps: list[torch.Tensor] = []
    run = rig.runner.run

    def watch(*args: Any, **options: Any) -> torch.Tensor:
        steps.append(run(*args, **options))
        return steps[-1]

    rig.runner.run = watch  # type: ignore[method-assign]
    return rig, steps


def answers(rig: Rig, sampling: list[dict[str, Any]]) -> list[tuple[int, ...]]:
    ids = [rig.ask_ids([7, 8, 9 + i], f"s{i}", max_tokens=9, n=2, **s) for i, s in enumerate(sampling)]
    rig.run()
    return [rig.finished[id + k].token_ids for id in ids for k in range(2)]


@pytest.mark.parametrize("others", [[], *([other] for other in OTHERS), OTHERS], ids=str)
def test_the_same_tokens_from_ids_as_from_logits(tiny_llama: Tiny, others: list[dict[str, Any]]) -> None:
    rig, steps = watched(tiny_llama, picks=True)
    plain, whole = watched(tiny_llama, picks=False)
    assert answers(rig, PLAIN + others) == answers(plain, PLAIN + others)
    assert all(step.dim() == 2 for step in whole)
    # One request that needs its logits is enough for all of a step.
    assert {step.dim() for step in steps} == ({2} if others else {1})


def test_logits_are_left_where_they_are_once_no_request_needs_them(tiny_llama: Tiny) -> None:
    rig, steps = watched(tiny_llama, picks=True)
    rig.ask_ids([5, 6], "a", max_tokens=8)
    rig.ask_ids([5, 7], "b", max_tokens=3, logprobs=1)
    rig.run()
    assert [step.dim() for step in steps] == [2, 2, 2, 1, 1, 1, 1, 1]


def test_logits_that_are_no_numbers_end_the_request(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, picks=True)
    forward = rig.runner.decoder.forward
    try:
        rig.runner.decoder.forward = lambda *args: forward(*args) * torch.nan  # type: ignore[method-assign]
        done = rig.answer([4, 5], max_tokens=3)
    finally:
        del rig.runner.decoder.forward
    assert done.reason == "error"
    assert "the model gave logits that are not numbers" in done.message


def test_an_id_alone_is_taken_as_it_is() -> None:
    assert Sampler(Sampling()).draw(torch.tensor(41)) == 41
    with pytest.raises(ValueError, match="not numbers"):
        Sampler(Sampling()).draw(torch.tensor(-1))
    assert Sampler(Sampling(temperature=1e-5)).greedy
    assert not Sampler(Sampling(temperature=1.0)).greedy
