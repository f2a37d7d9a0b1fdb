"""Ids of greedy rows can be found where the logits are: then only they are copied, and they are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from chatkv.engine.graphs import Rows
from chatkv.engine.messages import Sampling
from chatkv.engine.readback import Readback
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


def watched(tiny_llama: Tiny, picks: bool) -> tuple[Rig, list[list[int]]]:
    """A rig, and how many dimensions each row has that its runner hands out, a list a step."""
    rig = Rig(tiny_llama.decoder, picks=picks)
    steps: list[list[int]] = []
    run = rig.runner.run

    def watch(*args: Any, **options: Any) -> Sequence[torch.Tensor]:
        rows = run(*args, **options)
        steps.append([row.dim() for row in rows])
        return rows

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
    assert {dim for step in whole for dim in step} == {1}
    # Of a step in which all take part: a row for each that needs its logits, and ids of the others.
    assert max(steps, key=len).count(1) == 2 * len(others)
    assert max(steps, key=len).count(0) == 2 * len(PLAIN)


def test_only_the_rows_that_someone_looks_at_leave_the_device(tiny_llama: Tiny) -> None:
    rig, steps = watched(tiny_llama, picks=True)
    rig.ask_ids([5, 6], "a", max_tokens=8)
    rig.ask_ids([5, 7], "b", max_tokens=3, logprobs=1)
    rig.run()
    assert steps == [[0, 1]] * 3 + [[0]] * 5


class Slow:
    """A device whose copies from and to it are over when someone has waited for its event."""

    def __init__(self) -> None:
        self.waits, self.recorded = 0, False

    def record(self) -> None:
        self.recorded = True

    def synchronize(self) -> None:
        assert self.recorded, "waited for what was not asked for"
        self.recorded = False
        self.waits += 1


def test_a_step_waits_once_and_its_memory_serves_the_next() -> None:
    device = Slow()
    readback = Readback(torch.device("cpu"), pin=False, event=lambda: device)
    logits = torch.randn(5, 97)
    logits[3, 4] = torch.nan
    places: list[set[int]] = []
    for step, whole in enumerate([[False, True, False, False, True], [True] * 5, [False] * 5, None]):
        rows = readback.read(Rows(logits + step, None), whole)
        assert device.waits == step + 1
        for at, row in enumerate(rows):
            if whole is None or whole[at]:
                assert torch.equal(row, logits[at] + step) or at == 3
            else:
                assert int(row) == (-1 if at == 3 else int(logits[at].argmax()))
        places.append({row.data_ptr() for row in rows})
    assert places[1] == places[3]  # memory that was large enough
    # A chunk of a prompt has no rows, and nothing to wait for.
    assert not readback.read(Rows(logits[:0], None), [])
    assert device.waits == 4
    ids = torch.tensor([9, 8])
    found = readback.read(Rows(logits[:2], ids), [False, True])  # found along, in a graph
    assert int(found[0]) == 9
    assert torch.equal(found[1], logits[1])


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
