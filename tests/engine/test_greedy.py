"""Greedy answers in fp32 equal transformers' own ``generate``, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from chatkv.engine.messages import Turn
from chatkv.model.tokenizer import Codec
from tests.engine.conftest import Tiny, tiny
from tests.engine.rig import Rig, expected, load


def prompts(count: int, seed: int = 0) -> list[list[int]]:
    """Prompts of 1 to 40 tokens, many with shared beginnings."""
    rng = np.random.default_rng(seed)
    shared = rng.integers(3, 97, 30).tolist()
    return [
        shared[: int(rng.integers(0, 30))] + rng.integers(3, 97, int(rng.integers(1, 12))).tolist()
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "mistral"])
@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("attention", ["auto", "torch"])
def test_mixed_batches_of_every_shape(name: str, block_size: int, attention: str, tmp_path: Path) -> None:
    small = tiny(name, tmp_path, attention)
    rig = Rig(small.decoder, block_size=block_size, num_blocks=1024 // block_size, max_batch_tokens=23)
    asked = {}
    for index, prompt in enumerate(prompts(6)):
        asked[rig.ask_ids(prompt, f"s{index}", max_tokens=10)] = prompt
        rig.step()  # so that some decode while others are in the middle of a chunked prefill
    rig.run()
    for id, prompt in asked.items():
        assert list(rig.finished[id].token_ids) == expected(small.reference, prompt, 10)


@pytest.mark.parametrize("cache", ["radix", "none"])
@pytest.mark.parametrize("strict", [False, True])
def test_turns_and_forks(tiny_llama: Tiny, cache: str, strict: bool) -> None:
    rig = Rig(tiny_llama.decoder, cache=cache, strict=strict)
    first = prompts(1)[0]
    answer = list(rig.answer(first, max_tokens=9).token_ids)
    assert answer == expected(tiny_llama.reference, first, 9)
    second = first + answer + [5, 6, 7]
    again = rig.answer(second, max_tokens=9)
    assert list(again.token_ids) == expected(tiny_llama.reference, second, 9)
    fork = first + answer[:4] + [50, 51]
    forked = rig.answer(fork, max_tokens=9)
    assert list(forked.token_ids) == expected(tiny_llama.reference, fork, 9)
    if cache == "radix":
        known = len(first) + 8  # the last sampled token has no KV
        assert again.cached == (known // 4 * 4 if strict else known)
        assert forked.cached == ((len(first) + 4) // 4 * 4 if strict else len(first) + 4)
        assert again.cached + again.computed == again.prompt_tokens
    else:
        assert again.cached == forked.cached == 0


def test_under_eviction_and_preemption_texts_stay_right(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, num_blocks=26, block_size=4, max_batch_tokens=16)
    asked = {}
    for index, prompt in enumerate(prompts(14, seed=3)):
        asked[rig.ask_ids(prompt, f"s{index}", max_tokens=24)] = prompt
    rig.run()
    kinds = {type(event).__name__ for event in rig.events}
    assert {"NodeEvicted", "RequestPreempted", "PrefixReused", "SlotsCopied"} <= kinds
    for id, prompt in asked.items():
        assert list(rig.finished[id].token_ids) == expected(tiny_llama.reference, prompt, 24)


def test_logits_with_and_without_cache_agree(tiny_llama: Tiny) -> None:
    """Every logit of an answer after a long reuse, against computing it all."""
    decoder = tiny_llama.decoder
    seen: dict[str, list[Sequence[torch.Tensor]]] = {}
    prompt = prompts(1, seed=5)[0]
    for cache in ("radix", "none"):
        rig = Rig(decoder, cache=cache)
        rig.answer(prompt, max_tokens=20)
        rows = seen[cache] = []
        run = rig.core.runner.run
        rig.core.runner.run = lambda work, c, run=run, rows=rows, **_: rows.append(run(work, c)) or rows[-1]  # type: ignore[method-assign,func-returns-value]
        done = rig.answer([*prompt, 9, 8, 7], max_tokens=6)
        assert (done.cached > 0) == (cache == "radix")
    pairs = zip(*(torch.stack([row for step in seen[c] for row in step]) for c in seen), strict=True)
    assert max((a - b).abs().max().item() for a, b in pairs) < 1e-4


@pytest.mark.model
@pytest.mark.parametrize("cache", ["radix", "none"])
def test_the_real_model(smollm2_folder: Path, cache: str) -> None:
    """SmolLM2: a fresh prompt, a second turn, a forked session; the last with logits compared."""
    model = transformers.AutoModelForCausalLM.from_pretrained(smollm2_folder, dtype=torch.float32)
    codec = Codec.load(smollm2_folder)
    rig = Rig(load(smollm2_folder), codec, cache=cache, num_blocks=64, block_size=16, max_batch_tokens=48)
    turns = [Turn("system", "You answer in one line."), Turn("user", "What is a radix tree?")]

    def check(turns: list[Turn], tokens: int) -> Turn:
        id = rig.ask(turns, max_tokens=tokens, ignore_stop=True)
        rig.run()
        done = rig.finished[id]
        prompt = codec.encode_chat(turns)
        assert list(done.token_ids) == expected(model, prompt, tokens)
        assert (done.cached > 0) == (cache == "radix" and len(rig.finished) > 1)
        return Turn("assistant", done.text, done.token_ids)

    first = check(turns, 16)
    check([*turns, first, Turn("user", "And a trie?")], 12)
    check([*turns, first, Turn("user", "Why blocks?")], 12)
    check([turns[0], Turn("user", "What is a hash table?")], 8)
