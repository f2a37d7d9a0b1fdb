"""chatkv's engine, whole: scheduler, cache, sampler, and events folded as a screen would."""

from __future__ import annotations

import time

from benchmarks.engines.peers.base import DECODED, Peer, Setup
from chatkv import __version__
from chatkv.engine.config import EngineConfig
from chatkv.engine.inline import InlineEngine
from chatkv.engine.messages import GenerateRequest, Sampling
from chatkv.insight.mirror import Mirror

_BLOCK = 16


class Ours(Peer):
    """See the module."""

    def __init__(self, setup: Setup) -> None:
        blocks = 2 * setup.batch * -(-setup.max_tokens // _BLOCK)
        config = EngineConfig(
            model=setup.folder,
            device="cpu",  # as its peers
            threads=setup.threads,
            block_size=_BLOCK,
            num_blocks=blocks,
            max_batch_tokens=setup.max_tokens,
        )
        self._engine = InlineEngine(config)
        self._core, self._ready = self._engine.core, self._engine.ready
        self._mirror = Mirror()

    def about(self) -> str:
        """See ``Peer``."""
        return f"{__version__}, {self._ready.dtype}, {self._ready.attention}"

    def prefill(self, prompt: list[int]) -> float:
        """See ``Peer``."""
        self._core.clear_cache()
        return self._run([prompt], 1)[0]

    def decode(self, prompts: list[list[int]]) -> float:
        """See ``Peer``."""
        self._core.clear_cache()
        first, last = self._run(prompts, DECODED)
        return last - first

    def cached(self, prompt: list[int], more: list[int]) -> float:
        """See ``Peer``."""
        self._core.clear_cache()
        self._run([prompt], 1)
        return self._run([prompt + more], 1)[0]

    def _run(self, prompts: list[list[int]], tokens: int) -> tuple[float, float]:
        """Seconds until every prompt has its first token, and until all is over."""
        start = time.perf_counter()
        sampling = Sampling(max_tokens=tokens, ignore_stop=True)
        waiting = {
            self._engine.submit(GenerateRequest(f"{number}", tuple(prompt), sampling))
            for number, prompt in enumerate(prompts)
        }
        first = 0.0
        for batch in self._engine.batches():
            now = time.perf_counter() - start
            self._mirror.apply_all(batch.events)
            waiting.difference_update(delta.request for delta in batch.deltas)
            if not waiting and not first:
                first = now
        return first, time.perf_counter() - start
