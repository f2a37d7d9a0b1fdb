"""The real default model, against transformers on the same files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from chatkv.engine.messages import Turn
from chatkv.model.catalog import is_cached
from chatkv.model.config import DecoderConfig
from chatkv.model.decoder import Decoder
from chatkv.model.tokenizer import Codec
from tests.model.tiny import Requests, full_logits

pytestmark = pytest.mark.model

TURNS = [Turn("user", "What is the capital of France? Answer in one sentence.")]


def test_what_it_is(smollm2_folder: Path) -> None:
    config = DecoderConfig.load(smollm2_folder)
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (30, 9, 3, 64)
    assert (config.hidden, config.intermediate, config.vocab, config.max_position) == (576, 1536, 49152, 8192)
    assert config.tie_embeddings
    assert is_cached("smollm2-135m")
    codec = Codec.load(smollm2_folder)
    assert codec.stop_ids == {2}
    assert codec.default_system == "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def test_greedy_equals_generate(smollm2_folder: Path) -> None:
    codec = Codec.load(smollm2_folder)
    prompt = codec.encode_chat(TURNS)
    requests = Requests(Decoder.load(smollm2_folder, torch.float32), 16, 8)
    request = requests.open(len(prompt) + 24)
    ids, feed = [], prompt
    while len(ids) < 24:
        feed = [int(requests.step({request: feed})[0].argmax())]
        ids += feed
    model = AutoModelForCausalLM.from_pretrained(smollm2_folder, dtype=torch.float32)
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)
    assert ids == out[0, len(prompt) :].tolist()
    assert "Paris" in codec.decode(ids)


def test_logits_of_a_chunked_batch_equal_transformers(smollm2_folder: Path) -> None:
    codec = Codec.load(smollm2_folder)
    first = codec.encode_chat([Turn("system", "Be brief."), Turn("user", "Name three rivers of Europe.")])
    second = codec.encode_chat(TURNS)
    requests = Requests(Decoder.load(smollm2_folder, torch.float32), 16, 16)
    a, b = requests.open(64), requests.open(64)
    requests.step({a: first[:9], b: second[:-1]})
    logits = requests.step({b: second[-1:], a: first[9:]})
    model = AutoModelForCausalLM.from_pretrained(smollm2_folder, dtype=torch.float32)
    torch.testing.assert_close(logits[0], full_logits(model, second)[-1], atol=2e-4, rtol=0)
    torch.testing.assert_close(logits[1], full_logits(model, first)[-1], atol=2e-4, rtol=0)


def test_prompts_equal_transformers(smollm2_folder: Path) -> None:
    codec, tokenizer = Codec.load(smollm2_folder), AutoTokenizer.from_pretrained(smollm2_folder)
    for system in (None, "You are terse."):
        head = [] if system is None else [Turn("system", system)]
        turns = [
            *head,
            Turn("user", " 12 你好\n"),
            Turn("assistant", "\n\nHi 👩‍👩‍👧"),
            Turn("user", "def f():\n\treturn 3"),
        ]
        chat = [{"role": t.role, "content": t.text} for t in turns]
        want = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        assert codec.encode_chat(turns) == want


def test_sampled_ids_that_text_would_not_give_back(smollm2_folder: Path) -> None:
    codec = Codec.load(smollm2_folder)
    assert codec.encode_text(codec.decode([198, 198])) == [1116]
    prompt = codec.encode_chat(TURNS)
    follow = codec.encode_chat([*TURNS, Turn("assistant", "\n\n", (198, 198, 2)), Turn("user", "more")])
    assert follow[: len(prompt) + 3] == [*prompt, 198, 198, 2]
    assert follow[len(prompt) + 3] != 2
