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
    """Summarise this in two sentences.

A program that answers questions with a language model reads the same words again and again. Every turn of a
conversation begins with all the turns before it; every question to the same assistant begins with the same
instructions. What the model makes of a token, the keys and values of its attention layers, depends only on
the tokens that stand before it. So whoever keeps those keys and values for a text need not compute them again
for any other text that begins alike. Memory for them is cut into blocks of a fixed size, as an operating
system cuts memory into pages, and a table says for each request which block holds which part of its text.
Blocks that several requests read are counted, and given back when nobody needs them. A tree of all the texts
whose blocks are kept, in which common beginnings are stored once, finds the longest known beginning of a new
text in the time it takes to read it. When memory runs short, the leaves that were used least recently go
first. Most of the time that people wait for a first word is spent on text that was already known: with such a
tree a long document that was read once is asked about for the second time almost at once. It goes wrong in
quiet ways, too. A date in the first line of the instructions, a list whose order changes, one space more at
the end of a message, and nothing that follows is known any longer.""",
)
"""Short ones as people type them, and one that is computed as a prompt of many rows."""
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
