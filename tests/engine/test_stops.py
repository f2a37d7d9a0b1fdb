"""Stop strings: nothing of one is ever shown, and the ids that history keeps spell what was shown."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from chatkv.engine.generation import Generation
from chatkv.engine.messages import Finished, Sampling, Turn
from chatkv.engine.stops import StopStrings
from chatkv.model.tokenizer import Codec
from chatkv.scheduler.request import Request
from tests.engine.conftest import Tiny
from tests.engine.rig import Rig, load
from tests.model.templates import make
from tests.model.tiny import reference

PROMPT = list(range(3, 23))
SEED = {"temperature": 1.5, "seed": 4, "max_tokens": 8}


def test_every_way_of_cutting_a_text_in_pieces() -> None:
    rng = random.Random(0)
    for _ in range(3000):
        text = "".join(rng.choice("ab") for _ in range(rng.randrange(0, 12)))
        stop = "".join(rng.choice("ab") for _ in range(rng.randrange(1, 4)))
        stops, shown, rest = StopStrings((stop, "zz")), "", text
        while rest:
            size = rng.randrange(1, 4)
            shown += stops.push(rest[:size])
            rest = rest[size:]
            done = text[: len(text) - len(rest)]
            if stop not in done:
                held = done[len(shown) :]
                assert shown + held == done
                assert stop.startswith(held)
                assert len(held) < len(stop)
        shown += stops.flush()
        at = text.find(stop)
        assert shown == (text if at < 0 else text[:at])
        assert (stops.hit is not None) == (at >= 0)
        assert stops.cut == (len(text) - at if at >= 0 else 0)


def drawn(tiny: Tiny) -> tuple[Rig, list[int], str]:
    """A rig, and what seed 4 answers without stop strings: eight different ids, and their text."""
    done = Rig(tiny.decoder).answer(PROMPT, **SEED)
    assert len(set(done.token_ids)) == 8
    return Rig(tiny.decoder), list(done.token_ids), done.text


def test_an_answer_ends_before_a_stop_string(tiny_llama: Tiny) -> None:
    rig, ids, whole = drawn(tiny_llama)
    assert ids[3] > 9
    stop = f"{ids[3] % 10} {str(ids[4])[0]}"  # from inside the fourth token into the fifth
    assert whole.count(stop) == 1
    done = rig.answer(PROMPT, **SEED, stop=("not this", stop))
    assert done.reason == "stop"
    assert done.text == whole[: whole.index(stop)]
    # The fourth token is cut: what is left of it is encoded again.
    assert list(done.token_ids) == [*ids[:3], ids[3] // 10]


def test_what_only_looked_like_a_stop_string_is_shown_at_the_end(tiny_llama: Tiny) -> None:
    rig, ids, whole = drawn(tiny_llama)
    done = rig.answer(PROMPT, **SEED, stop=(f"{ids[7]} and more",))
    assert (done.reason, list(done.token_ids), done.text) == ("length", ids, whole)


def test_the_next_turn_hits_what_stands_before_the_cut(tiny_llama: Tiny) -> None:
    rig, ids, _ = drawn(tiny_llama)
    done = rig.answer(PROMPT, **SEED, stop=(f"{ids[5]} ",))
    assert list(done.token_ids) == ids[:5]
    follow = rig.answer([*PROMPT, *done.token_ids, 5, 6], max_tokens=1)
    assert follow.cached == len(PROMPT) + 5


@pytest.mark.parametrize("family", ["qwen3", "mistral"])
def test_kept_ids_spell_the_text_whatever_is_cut(family: str, tmp_path: Path) -> None:
    """Half characters, tokens of several characters, control tokens: random ids, random stop strings."""
    codec = Codec.load(make(family, tmp_path))
    rng = random.Random(1)
    words = [i for i in range(430) if "think" not in codec.piece(i)]
    smile = codec.encode_later("naïve 你好 👩‍👩‍👧 x")
    cuts = 0
    for round in range(400):
        ids = [rng.choice(words) for _ in range(6)] + smile + [rng.choice(words) for _ in range(4)]
        text = codec.decode(ids)
        begin = rng.randrange(len(text))
        stop = text[begin : begin + rng.randrange(1, 4)]
        request = Request(1, "s", np.array([1], dtype=np.int32), max_tokens=99)
        generation = Generation(request, Sampling(stop=(stop,)), codec, 0.0)
        shown = ""
        for token in ids:
            request.push(token)
            shown += generation.push(token, False).text
            if generation.stopped:
                break
        rest = generation.flush()
        shown += rest.text if rest is not None else ""
        assert shown == generation.text
        assert stop not in shown
        kept = generation.kept_ids
        if family == "mistral" and (not shown.strip() or shown != codec.decode(codec.encode_text(shown))):
            continue  # SentencePiece's first space, and unknown characters, are not the same forth and back
        if "\ufffd" not in shown:
            assert codec.decode(kept) == shown, round
            cuts += generation.stopped
    assert cuts > 50


BOTH_ROLES = " Hello there.\n\nUser: And you?\n\nAssistant: f(x)"


def test_a_model_without_a_template_does_not_play_both_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("none", tmp_path)
    reference("llama", vocab_size=500).save_pretrained(tmp_path)
    codec = Codec.load(tmp_path)
    rig = Rig(load(tmp_path), codec, num_blocks=128)

    def answer(prompt: list[Turn] | str, said: str, **sampling: bool) -> Finished:
        script = iter(codec.encode_later(said))
        with monkeypatch.context() as patch:
            patch.setattr(Generation, "draw", lambda self, logits: next(script))
            id = rig.ask(prompt, max_tokens=len(codec.encode_later(said)), **sampling)
            rig.run()
        return rig.finished[id]

    turns = [Turn("user", "Hello")]
    done = answer(turns, BOTH_ROLES)
    assert (done.reason, done.text) == ("stop", " Hello there.")
    assert codec.decode(done.token_ids) == " Hello there."
    turns += [Turn("assistant", done.text, done.token_ids), Turn("user", "And you?")]
    assert codec.decode(codec.encode_chat(turns)) == (
        "User: Hello\n\nAssistant: Hello there.\n\nUser: And you?\n\nAssistant:"
    )
    # The first prompt and what was kept of its answer are found again.
    follow = answer(turns, "User: is a word.\nUse it.")
    assert follow.cached >= done.prompt_tokens + len(done.token_ids)
    assert (follow.reason, follow.text) == ("length", "User: is a word.\nUse it.")
    # A text that is gone on with is no chat, and neither is an answer that is to have its length.
    assert answer("Hello", BOTH_ROLES).text == BOTH_ROLES
    assert answer(turns, BOTH_ROLES, ignore_stop=True).text == BOTH_ROLES
