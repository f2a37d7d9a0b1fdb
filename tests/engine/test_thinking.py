"""A thinking model's chat through the engine: what is told, what is kept, what the cache says."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.engine.generation import Generation
from chatkv.engine.messages import Finished, Turn
from chatkv.kvcache.events import PromptAccounted
from chatkv.model.tokenizer import Codec
from tests.engine.rig import Rig, load
from tests.model.templates import make
from tests.model.test_thinking import tokens
from tests.model.tiny import reference


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3 with a tokenizer and a template to go with it."""
    path = tmp_path_factory.mktemp("qwen3")
    make("qwen3", path)
    reference("qwen3", vocab_size=500, eos_token_id=499).save_pretrained(path)
    return path


def talk(rig: Rig, turns: list[Turn], said: str, monkeypatch: pytest.MonkeyPatch) -> Finished:
    """The answer to ``turns`` where the model happens to say ``said``."""
    script = iter(tokens(rig.core.codec, said))
    monkeypatch.setattr(Generation, "draw", lambda self, logits: next(script))
    id = rig.ask(turns, max_tokens=100)
    rig.run()
    return rig.finished[id]


def test_a_chat_with_thinking(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = Codec.load(folder)
    rig = Rig(load(folder), codec, num_blocks=128)
    turns = [Turn("user", "What is <think> for?")]
    cached = 0
    for said, thinking, answer in (
        ("<think>\nso\n\nlong\n</think>\n\nHello there<|im_end|>", "so\n\nlong", "Hello there"),
        ("Hello again<|im_end|>", "", "Hello again"),
        ("<think>\n\n</think>\n\nover 123<|im_end|>", "", "over 123"),
        ("<think>\nthe end", "the end", ""),
    ):
        prompt = codec.encode_chat(turns)
        done = talk(rig, turns, said.replace("the end", "the end<|im_end|>"), monkeypatch)
        assert (done.reason, done.thinking, done.text) == ("stop", thinking, answer)
        assert done.prompt_tokens == len(prompt)
        assert done.cached == cached
        thought = "<think>" in said
        turns = [*turns, Turn("assistant", done.text, done.token_ids), Turn("user", "more")]
        following = codec.encode_chat(turns)
        if thought:
            # The answer goes in without its thinking: what comes behind the opening is computed again.
            shared = len(prompt)
            assert following[:shared] == prompt
            assert following[shared] != done.token_ids[0]
        else:
            shared = len(prompt) + len(done.token_ids)
            assert following[:shared] == [*prompt, *done.token_ids]
            shared -= 1  # the last sampled token has no KV
        cached = shared
    accounted = [e for e in rig.events if isinstance(e, PromptAccounted)]
    assert [bool(e.diverged) for e in accounted] == [False, True, False, True]
    assert [e.diverged_at for e in accounted] == [
        None,
        accounted[0].prompt_tokens,
        None,
        accounted[2].prompt_tokens,
    ]


def test_deltas_tell_it_apart_as_it_comes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(load(folder), Codec.load(folder))
    done = talk(rig, [Turn("user", "a")], "<think>\nab cd\n</think>\n\nHello<|im_end|>", monkeypatch)
    deltas = [delta for batch in rig.batches for delta in batch.deltas]
    assert "".join(d.thinking for d in deltas) == done.thinking == "ab cd"
    assert "".join(d.text for d in deltas) == done.text == "Hello"
    assert sum((d.token_ids for d in deltas), ()) == done.token_ids
    first_text = next(i for i, d in enumerate(deltas) if d.text)
    assert all(not d.thinking for d in deltas[first_text + 1 :])


def test_stop_strings_look_at_the_answer_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = Codec.load(folder)
    rig = Rig(load(folder), codec)
    script = iter(tokens(codec, "<think>\nthe fox\n</think>\n\nHello the lazy dog"))
    monkeypatch.setattr(Generation, "draw", lambda self, logits: next(script))
    id = rig.ask([Turn("user", "a")], max_tokens=100, stop=("the",))
    rig.run()
    done = rig.finished[id]
    assert (done.reason, done.thinking, done.text) == ("stop", "the fox", "Hello ")
    assert done.token_ids == tokens(codec, "<think>\nthe fox\n</think>\n\nHello ")
