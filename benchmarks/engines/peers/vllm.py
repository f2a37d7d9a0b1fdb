"""vLLM's engine in this process, in bf16, with its prefix cache."""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.engines.peers.base import DECODED, Peer, Setup

_KV_GIB = "1"


class Vllm(Peer):
    """See the module."""

    def __init__(self, setup: Setup) -> None:
        # Its engine would run in another process, and be measured with the way there and back.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = _KV_GIB
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        os.environ["OMP_NUM_THREADS"] = str(setup.threads)
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        import torch
        import vllm

        torch.set_num_threads(setup.threads)
        self._version = vllm.__version__
        self._params: Any = vllm.SamplingParams
        self._llm: Any = vllm.LLM(
            model=setup.folder,
            dtype="bfloat16",
            max_model_len=setup.max_tokens,
            max_num_batched_tokens=setup.max_tokens,
            max_num_seqs=setup.batch,
            enable_prefix_caching=True,
            disable_log_stats=True,
        )
        self._ids = 0

    def about(self) -> str:
        """See ``Peer``."""
        return f"{self._version}, bf16"

    def prefill(self, prompt: list[int]) -> float:
        """See ``Peer``."""
        self._llm.reset_prefix_cache()
        return self._run([prompt], 1)[0]

    def decode(self, prompts: list[list[int]]) -> float:
        """See ``Peer``."""
        self._llm.reset_prefix_cache()
        first, last = self._run(prompts, DECODED)
        return last - first

    def cached(self, prompt: list[int], more: list[int]) -> float:
        """See ``Peer``."""
        self._llm.reset_prefix_cache()
        self._run([prompt], 1)
        return self._run([prompt + more], 1)[0]

    def _run(self, prompts: list[list[int]], tokens: int) -> tuple[float, float]:
        """Seconds until every prompt has its first token, and until all is over."""
        engine = self._llm.llm_engine
        params = self._params(
            temperature=0.0, max_tokens=tokens, min_tokens=tokens, ignore_eos=True, detokenize=False
        )
        start = time.perf_counter()
        waiting = set()
        for prompt in prompts:
            self._ids += 1
            waiting.add(str(self._ids))
            engine.add_request(str(self._ids), {"prompt_token_ids": prompt}, params)
        first = 0.0
        while engine.has_unfinished_requests():
            outputs = engine.step()
            now = time.perf_counter() - start
            for output in outputs:
                if output.outputs[0].token_ids:
                    waiting.discard(output.request_id)
            if not waiting and not first:
                first = now
        return first, time.perf_counter() - start
