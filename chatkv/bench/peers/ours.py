"""chatkv's engine, whole: scheduler, cache, sampler, and events folded as a screen would."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from chatkv import __version__
from chatkv.bench.peers.base import DECODED, Peer, Setup
from chatkv.engine.config import EngineConfig
from chatkv.engine.loading import load
from chatkv.engine.messages import Delta, GenerateRequest, Sampling, Turn
from chatkv.engine.outbox import Outbox
from chatkv.insight.mirror import Mirror

_BLOCK = 16


class _Ids:
    """The codec, but a prompt is the ids of its one turn."""

    def __init__(self, codec: Any) -> None:
        self._codec = codec

    def encode_chat(self, turns: Sequence[Turn]) -> list[int]:
        return list(turns[0].token_ids or ())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codec, name)


class Ours(Peer):
    """See the module."""

    def __init__(self, setup: Setup) -> None:
        self._outbox = Outbox()
        blocks = 2 * setup.batch * -(-setup.max_tokens // _BLOCK)
        config = EngineConfig(
            model=setup.folder,
            device="cpu",  # as its peers
            threads=setup.threads,
            block_size=_BLOCK,
            num_blocks=blocks,
            max_batch_tokens=setup.max_tokens,
        )
        self._core, self._ready = load(config, self._outbox, lambda stage, done: None)
        self._core.codec = _Ids(self._core.codec)  # type: ignore[assignment]
        self._mirror = Mirror()
        self._ids = 0
        self._take()

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
        waiting = set()
        for prompt in prompts:
            self._ids += 1
            waiting.add(self._ids)
            turns = (Turn("assistant", "", tuple(prompt)),)
            sampling = Sampling(max_tokens=tokens, ignore_stop=True)
            self._core.add(self._ids, GenerateRequest(f"{self._ids}", turns, sampling), start)
        first = 0.0
        while self._core.has_work:
            self._core.step()
            now = time.perf_counter() - start
            for delta in self._take():
                waiting.discard(delta.request)
            if not waiting and not first:
                first = now
        return first, time.perf_counter() - start

    def _take(self) -> tuple[Delta, ...]:
        batch = self._outbox.drain()
        if batch is None:
            return ()
        self._mirror.apply_all(batch.events)
        return batch.deltas
