"""llama.cpp through llama-cpp-python, on the GGUF file the weights came from."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.engines.peers.base import DECODED, Peer, Setup
from chatkv.errors import ChatkvError


class LlamaCpp(Peer):
    """See the module."""

    most_at_once = 1

    def __init__(self, setup: Setup) -> None:
        import llama_cpp

        if setup.gguf is None:
            raise ChatkvError("llama.cpp needs the model as a GGUF file: give one with --model")
        self._version = llama_cpp.__version__
        self._llama: Any = llama_cpp.Llama(
            setup.gguf,
            n_ctx=setup.max_tokens,
            n_batch=setup.max_tokens,
            n_threads=setup.threads,
            n_threads_batch=setup.threads,
            verbose=False,
        )

    def about(self) -> str:
        """See ``Peer``."""
        return f"llama-cpp-python {self._version}, as in the GGUF"

    def prefill(self, prompt: list[int]) -> float:
        """See ``Peer``."""
        self._llama.reset()
        return self._first(prompt)

    def decode(self, prompts: list[list[int]]) -> float:
        """See ``Peer``."""
        self._llama.reset()
        self._first(prompts[0])
        token = self._likeliest()
        start = time.perf_counter()
        for _ in range(DECODED - 1):
            self._llama.eval([token])
            token = self._likeliest()
        return time.perf_counter() - start

    def cached(self, prompt: list[int], more: list[int]) -> float:
        """See ``Peer``."""
        self._llama.reset()
        self._first(prompt)
        return self._first(more)

    def _first(self, tokens: list[int]) -> float:
        start = time.perf_counter()
        self._llama.eval(tokens)
        self._likeliest()
        return time.perf_counter() - start

    def _likeliest(self) -> int:
        return int(self._llama.sample(temp=0.0))
