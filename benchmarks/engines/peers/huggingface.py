"""transformers' own ``generate``, in bf16."""

from __future__ import annotations

import time
from typing import Any

import torch
import transformers

from benchmarks.engines.peers.base import DECODED, Peer, Setup


class _FirstToken(transformers.StoppingCriteria):
    """Stops nothing; notes when the first token was there.

    In the same run: a second run's prefill would differ by more than a few tokens take.
    """

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        self.at = self.at or time.perf_counter()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class HuggingFace(Peer):
    """See the module."""

    def __init__(self, setup: Setup) -> None:
        torch.set_num_threads(setup.threads)
        logging: Any = transformers.logging
        logging.set_verbosity_error()
        loader: Any = transformers.AutoModelForCausalLM
        self._model: Any = loader.from_pretrained(
            setup.folder, dtype=torch.bfloat16, local_files_only=True
        ).eval()

    def about(self) -> str:
        """See ``Peer``."""
        return f"{transformers.__version__}, bf16"

    def prefill(self, prompt: list[int]) -> float:
        """See ``Peer``."""
        return self._generate([prompt], 1)

    def decode(self, prompts: list[list[int]]) -> float:
        """See ``Peer``."""
        first = _FirstToken()
        start = time.perf_counter()
        return self._generate(prompts, DECODED, first) - (first.at - start)

    @torch.inference_mode()
    def cached(self, prompt: list[int], more: list[int]) -> float:
        """See ``Peer``."""
        cache = transformers.DynamicCache(config=self._model.config)
        self._model(torch.tensor([prompt]), past_key_values=cache, logits_to_keep=1)
        start = time.perf_counter()
        out = self._model(torch.tensor([more]), past_key_values=cache, logits_to_keep=1)
        out.logits[0, -1].argmax().item()
        return time.perf_counter() - start

    @torch.inference_mode()
    def _generate(self, prompts: list[list[int]], tokens: int, watch: _FirstToken | None = None) -> float:
        ids = torch.tensor(prompts)
        start = time.perf_counter()
        self._model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            stopping_criteria=None if watch is None else transformers.StoppingCriteriaList([watch]),
        )
        return time.perf_counter() - start
