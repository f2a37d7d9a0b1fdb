"""The engine over FlashInfer's own wrapper classes (on the CPU, compiled modules replaced by torch).

What a GPU would compute is not tested by this; how the engine and the library fit together is.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from chatkv.attention.flashinfer.backend import FlashInferBackend
from chatkv.attention.flashinfer.rules import Heads, Limits
from chatkv.model.decoder import Decoder
from tests.attention.flashinfer_fakes import RealFlashInfer
from tests.engine.conftest import Tiny, tiny
from tests.engine.rig import Rig, expected


def rig(real: RealFlashInfer, decoder: Decoder, block_size: int, **options: int | bool) -> Rig:
    c = decoder.config
    heads = Heads(c.num_heads, c.num_kv_heads, c.head_dim, decoder.dtype)
    limits = Limits(block_size=block_size, batch_tokens=23, requests=8, context=256)
    backend = FlashInferBackend(real.library, heads, torch.device("cpu"), limits)
    options = {"max_batch_tokens": 23, **options}
    return Rig(decoder, block_size=block_size, backend=backend, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["llama", "qwen2"])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_mixed_batches_give_what_transformers_says(
    real: RealFlashInfer, name: str, block_size: int, tmp_path: Path
) -> None:
    small = tiny(name, tmp_path, "torch")
    run = rig(real, small.decoder, block_size, num_blocks=1024 // block_size)
    rng = np.random.default_rng(1)
    shared = rng.integers(3, 97, 30).tolist()
    asked = {}
    for index in range(5):
        prompt = shared[: int(rng.integers(0, 30))] + rng.integers(3, 97, int(rng.integers(1, 12))).tolist()
        asked[run.ask_ids(prompt, f"s{index}", max_tokens=8)] = prompt
        run.step()  # so that some decode while others are in the middle of a chunked prefill
    run.run()
    for id, prompt in asked.items():
        assert list(run.finished[id].token_ids) == expected(small.reference, prompt, 8)
    assert {kind for kind, _ in real.modules.planned} == {"prefill", "decode"}


def test_forks_reuse_slots_and_a_small_pool_preempts(real: RealFlashInfer, tmp_path: Path) -> None:
    small: Tiny = tiny("llama", tmp_path, "torch")
    run = rig(real, small.decoder, 4, num_blocks=12, verify=True)
    rng = random.Random(2)
    talk = [rng.randrange(3, 97) for _ in range(9)]
    for _ in range(3):
        both = [talk, [*talk[:7], 50, 51]]  # the second matches within a block: its slots are copied
        ids = [run.ask_ids(prompt, f"s{i}", n=2, max_tokens=12) for i, prompt in enumerate(both)]
        run.run()
        for id, prompt in zip(ids, both, strict=True):
            assert list(run.finished[id].token_ids) == expected(small.reference, prompt, 12)
        talk = [*talk, *run.finished[ids[0]].token_ids[:3]]
    happened = {type(event).__name__ for event in run.events}
    assert {"SlotsCopied", "RequestPreempted", "NodeEvicted"} <= happened
    assert run.verified
    assert all(found.differing is None and found.max_difference < 1e-3 for found in run.verified)
