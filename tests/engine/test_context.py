"""The end of the context: told before it comes, what to do when it does, and nothing dropped to fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.engine.messages import ContextNear, Turn
from chatkv.model.tokenizer import Codec
from tests.engine.conftest import Tiny
from tests.engine.rig import Rig, expected, load
from tests.model.templates import make
from tests.model.tiny import reference

PROMPT = list(range(3, 23))


def near(rig: Rig) -> list[ContextNear]:
    return [told for batch in rig.batches for told in batch.near]


def test_it_is_told_once_when_most_is_used(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, max_context=40)  # most: 32 tokens
    short = rig.answer(PROMPT, max_tokens=11)
    assert near(rig) == []
    assert (short.context_used, short.context_limit) == (31, 40)
    done = rig.answer([*PROMPT, 5], max_tokens=15)
    assert near(rig) == [ContextNear(done.request, "s", 32, 40)]
    assert (done.reason, done.context_used) == ("length", 36)


def test_a_long_prompt_is_told_at_once(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, max_context=40)
    id = rig.ask_ids([*PROMPT, *PROMPT[:15]], "late", max_tokens=50)
    assert near(rig) == [ContextNear(id, "late", 35, 40)]
    rig.run()
    done = rig.finished[id]
    assert (done.reason, len(done.token_ids), done.context_used) == ("context", 5, 40)
    assert list(done.token_ids) == expected(tiny_llama.reference, [*PROMPT, *PROMPT[:15]], 5)
    assert "start a new session" in done.message
    assert len(near(rig)) == 1


def test_forks_are_told_each(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, max_context=40)
    id = rig.ask_ids(PROMPT, n=2, max_tokens=14)
    rig.run()
    assert [told.request for told in near(rig)] == [id, id + 1]


def test_a_full_context_never_costs_the_system_prompt(tmp_path: Path) -> None:
    """Turn by turn to the end: each prompt begins with all that was said, or is refused."""
    make("qwen2.5", tmp_path)
    reference("qwen2", vocab_size=500, eos_token_id=499).save_pretrained(tmp_path)
    codec = Codec.load(tmp_path)
    rig = Rig(load(tmp_path), codec, max_context=120, num_blocks=64)
    system = codec.encode_chat([Turn("system", "Be brief, always."), Turn("user", "")])[:12]
    turns = [Turn("system", "Be brief, always."), Turn("user", "Hello there")]
    reasons = []
    before: list[int] = []
    for _ in range(12):
        id = rig.ask(turns, max_tokens=12, ignore_stop=True)
        rig.run()
        done = rig.finished[id]
        reasons.append(done.reason)
        prompt = codec.encode_chat(turns)
        assert prompt[:12] == system
        assert prompt[: len(before)] == before
        assert done.prompt_tokens == len(prompt)
        if done.reason == "refused":
            break
        before = [*prompt, *done.token_ids]
        turns = [*turns, Turn("assistant", done.text, done.token_ids), Turn("user", "and more")]
    assert reasons[-1] == "refused"
    assert set(reasons[:-1]) <= {"length", "context"}
    assert f"{len(codec.encode_chat(turns))} tokens" in done.message
    assert "start a new session" in done.message


@pytest.mark.parametrize("family", ["llama3", "mistral", "qwen2.5", "qwen3"])
def test_every_turn_hits_all_but_the_last_token(family: str, tmp_path: Path) -> None:
    """Sampled ids that re-encoding would not give (random ones): the chat stays a prefix of itself."""
    make(family, tmp_path)
    size = 512 if family != "mistral" else 400
    reference("llama", vocab_size=size, eos_token_id=size - 1).save_pretrained(tmp_path)
    codec = Codec.load(tmp_path)
    rig = Rig(load(tmp_path), codec, num_blocks=200)
    turns = [Turn("user", " Hi \n")]
    known = 0
    changed = 0
    for number in range(4):
        id = rig.ask(turns, max_tokens=9, temperature=3.0, seed=number)
        rig.run()
        done = rig.finished[id]
        assert done.cached == known
        changed += codec.encode_later(done.text) != list(done.token_ids)
        if "</think>" in map(codec.piece, done.token_ids):
            pytest.skip("by chance the model thought, and the template drops that")
        known = done.prompt_tokens + len(done.token_ids) - 1
        turns = [*turns, Turn("assistant", done.text, done.token_ids), Turn("user", "more")]
    assert changed > 2
