"""Random schedules: every answer is what transformers says for its prompt alone."""

from __future__ import annotations

import gc
import random
import resource
from pathlib import Path

import pytest
import torch
import transformers

from chatkv.engine.messages import Turn
from chatkv.model.tokenizer import Codec
from tests.engine.conftest import Tiny, tiny
from tests.engine.rig import Rig, expected, load


def live(rig: Rig, rng: random.Random, requests: int) -> dict[int, list[int]]:
    """Sessions that go on, fork, ask for several answers and are stopped; the prompt of each request."""
    talks: dict[str, list[int]] = {}
    running: dict[int, str] = {}
    asked: dict[int, list[int]] = {}
    while len(asked) < requests or rig.core.has_work:
        action = rng.random()
        idle = [name for name in talks if name not in running.values()]
        if len(asked) < requests and action < 0.5:
            if idle and rng.random() < 0.7:
                name = rng.choice(idle)
            else:
                name = f"s{len(asked)}"
                talks[name] = [3 + i * 7 % 90 for i in range(rng.randrange(1, 20))]
            prompt = [*talks[name], *(rng.randrange(3, 97) for _ in range(rng.randrange(1, 9)))]
            n = rng.choice([1, 1, 2, 3])
            id = rig.ask_ids(prompt, name, n=n, max_tokens=rng.randrange(1, 40))
            for each in range(id, id + n):
                asked[each] = prompt
                running[each] = name
        elif action < 0.53 and running:
            rig.core.stop(rng.choice(list(running)))
            rig.take()
        else:
            rig.step()
        for id in [id for id in running if id in rig.finished]:
            name, done = running.pop(id, ""), rig.finished[id]
            if name not in talks:
                continue
            talks[name] = [*asked[id], *done.token_ids]
            if len(talks[name]) > 40:
                del talks[name]
    return asked


def check(rig: Rig, asked: dict[int, list[int]], model: transformers.PreTrainedModel) -> None:
    longest: dict[tuple[int, ...], int] = {}
    for id, prompt in asked.items():
        longest[tuple(prompt)] = max(longest.get(tuple(prompt), 0), len(rig.finished[id].token_ids))
    want = {prompt: expected(model, prompt, count) for prompt, count in longest.items() if count}
    for id, prompt in asked.items():
        said = list(rig.finished[id].token_ids)
        assert said == want.get(tuple(prompt), [])[: len(said)]
        assert rig.finished[id].reason in ("length", "aborted")
    assert rig.cache.protected == 0
    assert rig.cache.clear()


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "mistral"])
@pytest.mark.parametrize(
    ("cache", "block_size", "strict"),
    [("radix", 1, False), ("radix", 4, False), ("radix", 7, True), ("hash", 4, False), ("none", 3, False)],
)
def test_every_answer_is_right(name: str, cache: str, block_size: int, strict: bool, tmp_path: Path) -> None:
    small = tiny(name, tmp_path)
    rig = Rig(
        small.decoder,
        cache=cache,
        strict=strict,
        block_size=block_size,
        num_blocks=-(-96 // block_size),
        max_batch_tokens=17,
    )
    asked = live(rig, random.Random(block_size), 30)
    kinds = {type(event).__name__ for event in rig.events}
    assert {"RequestPreempted"} <= kinds
    if cache != "none":
        assert {"PrefixReused", "NodeTrimmed" if cache == "hash" else "NodeEvicted"} & kinds
    check(rig, asked, small.reference)


@pytest.mark.model
def test_the_real_model_in_company(smollm2_folder: Path) -> None:
    """Chunks, forks, a second turn, preemption and eviction, with the real weights and tokenizer."""
    model = transformers.AutoModelForCausalLM.from_pretrained(smollm2_folder, dtype=torch.float32)
    codec = Codec.load(smollm2_folder)
    rig = Rig(load(smollm2_folder), codec, num_blocks=9, block_size=16, max_batch_tokens=40)
    system = Turn("system", "You answer in one short line.")
    asked: dict[int, list[Turn]] = {}

    def ask(turns: list[Turn], session: str, n: int = 1) -> int:
        id = rig.ask(turns, session, n=n, max_tokens=20, ignore_stop=True)
        asked.update(dict.fromkeys(range(id, id + n), turns))
        return id

    first = ask([system, Turn("user", "What is a radix tree?")], "a", n=2)
    for _ in range(3):
        rig.step()
    ask([system, Turn("user", "Name three rivers of Europe, and the seas they reach.")], "b")
    ask([system, Turn("user", "What is a hash table?")], "c")
    while first not in rig.finished:
        rig.step()
    done = rig.finished[first]
    ask([*asked[first], Turn("assistant", done.text, done.token_ids), Turn("user", "And a trie?")], "a")
    rig.run()
    kinds = {type(event).__name__ for event in rig.events}
    assert {"RequestPreempted", "PrefixReused", "SlotsCopied", "NodeEvicted"} <= kinds
    for id, turns in asked.items():
        prompt = codec.encode_chat(turns)
        assert list(rig.finished[id].token_ids) == expected(model, prompt, 20)


@pytest.mark.nightly
def test_ten_thousand_requests_leave_nothing_behind(tiny_llama: Tiny) -> None:
    """A tiny pool: memory stays flat, integrity holds after every step, nothing stays locked."""
    rig = Rig(tiny_llama.decoder, num_blocks=30, block_size=4, max_batch_tokens=24)
    rng = random.Random(7)
    memory = []
    for _ in range(10):
        asked = live(rig, rng, 1000)
        check(rig, dict(list(asked.items())[:40]), tiny_llama.reference)
        for kept in (rig.events, rig.batches, rig.finished, rig.texts, rig.thoughts, rig.logprobs):
            kept.clear()
        gc.collect()
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        assert rig.core.live == rig.core._waiting == rig.cache.rows == {}
    assert memory[-1] - memory[2] < 20 << 10  # KiB
