"""How far a number format's next-token distributions are from fp32's, over a fixed set of prompts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from chatkv.attention.base import PagedBatch
from chatkv.engine.compute import Compute, build
from chatkv.engine.messages import Turn
from chatkv.model.tokenizer import Codec

PROMPTS = (
    "Hello",
    "Write a short poem about the sea.",
    "Explain how a radix tree works, in three sentences.",
    "List the planets of the solar system and one fact on each.",
    "def fibonacci(n):\n    # finish this function",
    "What is 17 + 25? Think step by step.",
    "Übersetze ins Englische: Der Hund schläft.",
    "为什么天空是蓝色的？",
)
ANSWER_TOKENS = 24
_BLOCK = 16


def mean_kl(folder: Path, dtypes: list[str], attention: str = "auto") -> dict[str, float]:
    """Mean KL divergence from fp32 to each of ``dtypes``, in nats a token.

    Answers are fp32's greedy ones; each format then decodes the same tokens, one at a time, as a chat
    would. Raises ModelError and EngineError as ``build`` does.
    """
    codec = Codec.load(folder)
    chats = [codec.encode_chat([Turn("user", text)]) for text in PROMPTS]
    exact = build(folder, "fp32", attention)
    wanted = [_decode(exact, prompt, None) for prompt in chats]
    out = {}
    for dtype in dtypes:
        compute = build(folder, dtype, attention)
        kls = []
        for prompt, (answer, reference) in zip(chats, wanted, strict=True):
            _, logits = _decode(compute, prompt, answer)
            p, q = reference.log_softmax(-1), logits.log_softmax(-1)
            kls.append((p.exp() * (p - q)).sum(-1))
        out[dtype] = float(torch.cat(kls).mean())
    return out


def _decode(compute: Compute, prompt: list[int], answer: list[int] | None) -> tuple[list[int], torch.Tensor]:
    """Feed ``prompt``, then ``answer`` token by token (None: what is likeliest); the answer, and fp32 logits
    ``[ANSWER_TOKENS, vocab]`` before each of its tokens.
    """
    decoder = compute.decoder
    blocks = -(-(len(prompt) + ANSWER_TOKENS) // _BLOCK)
    kv = decoder.new_kv(blocks, _BLOCK)
    feed, start, taken, rows = prompt, 0, [], []
    for index in range(ANSWER_TOKENS):
        end = start + len(feed)
        pages = np.arange(-(-end // _BLOCK), dtype=np.int32)
        compute.backend.plan(
            PagedBatch(
                qo_indptr=np.array([0, len(feed)], dtype=np.int32),
                kv_indptr=np.array([0, len(pages)], dtype=np.int32),
                kv_indices=pages,
                last_page_len=np.array([(end - 1) % _BLOCK + 1], dtype=np.int32),
                block_size=_BLOCK,
            )
        )
        at = torch.arange(start, end)
        last = torch.tensor([len(feed) - 1])
        logits = decoder.forward(torch.tensor(feed), at, at, kv, compute.backend, last)
        rows.append(logits[0])
        taken.append(int(logits[0].argmax()) if answer is None else answer[index])
        feed, start = taken[-1:], end
    return taken, torch.stack(rows)
