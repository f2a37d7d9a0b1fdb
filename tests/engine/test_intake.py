"""What is asked is checked where it enters: a prompt that no model could compute ends alone."""

from __future__ import annotations

import pytest

from chatkv.engine.measure import measure
from chatkv.engine.messages import Turn
from tests.engine.conftest import Tiny
from tests.engine.rig import NumberCodec, Rig, expected

PROMPT = list(range(3, 23))


@pytest.mark.parametrize("cache", ["radix", "hash", "none"])
@pytest.mark.parametrize("bad", [-1, 10**6, 2**40])
def test_ids_that_the_model_does_not_have_end_their_request_only(
    tiny_llama: Tiny, cache: str, bad: int
) -> None:
    """A session's file may hold ids of another model, or anything."""
    rig = Rig(tiny_llama.decoder, cache=cache)
    other = rig.ask_ids(PROMPT, max_tokens=6)
    rig.step()
    wrong = rig.ask([Turn("user", "5"), Turn("assistant", "x", (7, bad)), Turn("user", "6")])
    rig.run()
    assert rig.finished[wrong].reason == "error"
    assert f"token id {bad}" in rig.finished[wrong].message
    assert list(rig.finished[other].token_ids) == expected(tiny_llama.reference, PROMPT, 6)


def test_a_prompt_without_tokens_ends_with_one_line(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder)
    empty = rig.ask([])
    assert rig.finished[empty].reason == "error"
    assert "no tokens" in rig.finished[empty].message
    assert rig.answer(PROMPT, max_tokens=2).reason == "length"


def test_a_namespace_may_be_any_text(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder)
    first, second = (rig.ask_ids(PROMPT, max_tokens=2, namespace="\ud800") for _ in range(2))
    rig.run()
    assert rig.finished[first].token_ids == rig.finished[second].token_ids


@pytest.mark.parametrize("cache", ["radix", "hash", "none"])
def test_what_can_not_be_measured_is_told(tiny_llama: Tiny, cache: str) -> None:
    rig = Rig(tiny_llama.decoder, cache=cache)
    told = measure(1, "s", [Turn("assistant", "x", (2**40,))], NumberCodec(), rig.cache)  # type: ignore[arg-type]
    assert (told.ticket, told.reused) == (1, 0)
    assert "could not be measured" in told.problem


@pytest.mark.parametrize("cache", ["radix", "hash", "none"])
def test_token_ids_are_a_prompt_of_their_own(tiny_llama: Tiny, cache: str) -> None:
    rig = Rig(tiny_llama.decoder, cache=cache)
    for turn in range(2):
        id = rig.ask(tuple(PROMPT), max_tokens=6)
        rig.run()
        assert list(rig.finished[id].token_ids) == expected(tiny_llama.reference, PROMPT, 6)
        assert rig.finished[id].cached == (
            len(PROMPT) - 1 if turn and cache == "radix" else 16 * (turn and cache != "none")
        )


def test_only_a_conversation_is_split_into_thinking_and_text(tiny_llama: Tiny) -> None:
    codec = NumberCodec()
    codec.thinks = codec.opened = True
    rig = Rig(tiny_llama.decoder, codec)
    text = " ".join(map(str, PROMPT))
    chat, plain, ids = (
        rig.ask([Turn("user", text)], max_tokens=3),
        rig.ask(text, max_tokens=3),
        rig.ask(tuple(PROMPT), max_tokens=3),
    )
    rig.run()
    assert rig.finished[chat].thinking
    assert not rig.finished[chat].text
    for other in (plain, ids):
        assert rig.finished[other].text
        assert not rig.finished[other].thinking
        assert rig.finished[other].token_ids == rig.finished[chat].token_ids
