"""Is what the cache holds right? A finished answer is computed again, with it and without it.

Two forwards are compared for every token of the answer, in a scratch KV of their own, so that the
cache is read and never changed:

* *cold*: prompt and answer from nothing, in chunks;
* *cached*: each token over the KV that the cache holds for all that stands before it. Tokens that it
  does not hold (any more) are computed behind it, as the next turn would.

The logits of one position depend on the KV of all positions before it, so one wrong slot shows in
every later token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from chatkv.engine.config import EngineError
from chatkv.engine.devices import free_memory
from chatkv.engine.messages import Differing, Verified
from chatkv.engine.runner import Part, Runner
from chatkv.kvcache.cache import KVCache, blocks_for
from chatkv.kvcache.events import Int32Array
from chatkv.text import one_line

WIDTH = 32
"""Tokens of the answer that are compared at a time: bounds the memory for logits and single blocks."""


class Answer(NamedTuple):
    """A finished request. ``tokens``: int32, prompt and sampled ones."""

    request: int
    session: str
    namespace: str
    tokens: Int32Array
    prompt_tokens: int


class Verification:
    """One answer being verified; ``slices`` does a forward at a time."""

    def __init__(
        self,
        answer: Answer,
        cache: KVCache,
        runner: Runner,
        piece: Callable[[int], str],
        budget: Callable[[], int],
    ) -> None:
        """Copies what ``cache`` holds of ``answer`` now. ``budget``: the tokens of the next forward.

        Raises EngineError where its own KV, two contexts' worth, does not fit in memory.
        """
        self._answer, self._runner, self._piece, self._budget = answer, runner, piece, budget
        self._ids = answer.tokens[:-1]  # the last one's logits chose nothing, nor has it KV
        self._first = answer.prompt_tokens - 1
        self._reused, held = cache.locate(self._ids, answer.namespace, answer.session)
        blocks = blocks_for(len(self._ids), runner.block_size)
        self._cold = np.arange(blocks, dtype=np.int32)
        self._warm = self._cold + blocks
        self._single = np.arange(2 * blocks, 2 * blocks + WIDTH, dtype=np.int32)
        need = (2 * blocks + WIDTH) * runner.decoder.bytes_per_block(runner.block_size)
        if need > (free := free_memory(runner.decoder.device)):
            # A system short of memory would rather end the process than refuse.
            raise EngineError(f"it takes {need >> 20} MiB of memory, and {free >> 20} MiB are free")
        self._kv = runner.decoder.new_kv(2 * blocks + WIDTH, runner.block_size)
        with torch.inference_mode():
            self._kv[:, blocks : blocks + len(held)] = runner.kv[:, held.astype(np.int64)]
        self._largest, self._at, self._seconds = 0.0, 0, 0.0
        self._differing: Differing | None = None

    def slices(self) -> Iterator[None]:
        """Compute; ``result`` is right once this ends."""
        for blocks, start in ((self._cold, 0), (self._warm, self._reused)):
            while start < self._first:
                end = min(start + self._budget(), self._first)
                self._forward([self._part(blocks, start, end, 0)])
                start = end
                yield
        for start in range(self._first, len(self._ids), WIDTH):
            end = min(start + WIDTH, len(self._ids))
            cold = self._forward([self._part(self._cold, start, end, end - start)])
            yield
            held = min(max(self._reused, start), end)
            warm = [self._single_part(i, start) for i in range(start, held)]
            if held < end:
                warm.append(self._part(self._warm, held, end, end - held))
            self._compare(self._forward(warm), cold, start - self._first)
            yield

    @property
    def result(self) -> Verified:
        """What came out."""
        answer = self._answer
        positions = len(self._ids) - self._first
        said = f"request {answer.request}: {positions} tokens compared with a cold run"
        said += f" ({self._reused} of {len(self._ids)} tokens cached): "
        if (found := self._differing) is None:
            said += "the same greedy token everywhere, "
        else:
            said += (
                f"token {found.position} differs, {one_line(found.cached_text, 20)!r} (id {found.cached_id}) "
                f"from the cache and {one_line(found.cold_text, 20)!r} (id {found.cold_id}) cold, "
                f"by {found.margin:.3g}; "
            )
        said += f"logits at most {self._largest:.3g} apart (token {self._at})"
        if self._runner.decoder.dtype != torch.float32:
            # In a chat tokens came one at a time, here many at once: other products, rounded otherwise.
            said += "; some of it is rounding, --dtype fp32 compares exactly"
        return Verified(
            answer.request,
            answer.session,
            positions,
            self._reused,
            self._largest,
            self._at,
            found,
            self._seconds,
            said,
        )

    def _part(self, blocks: Int32Array, start: int, end: int, rows: int) -> Part:
        return Part(self._ids[start:end], start, blocks[: blocks_for(end, self._runner.block_size)], rows)

    def _single_part(self, i: int, start: int) -> Part:
        """Token ``i`` alone: it writes its own KV into a copy of its block, so that no other sees it."""
        last = i // self._runner.block_size
        own = self._single[i - start]
        with torch.inference_mode():
            self._kv[:, own] = self._kv[:, self._warm[last]]
        return Part(self._ids[i : i + 1], i, np.append(self._warm[:last], own).astype(np.int32), 1)

    def _forward(self, parts: list[Part]) -> torch.Tensor:
        begun = time.perf_counter()
        logits = self._runner.forward(parts, self._kv)
        self._seconds += time.perf_counter() - begun
        return logits

    def _compare(self, warm: torch.Tensor, cold: torch.Tensor, position: int) -> None:
        apart = (warm - cold).abs().amax(-1).nan_to_num(float("inf"))
        if float(apart.max()) > self._largest:
            self._largest, self._at = float(apart.max()), position + int(apart.argmax())
        ours, theirs = warm.argmax(-1), cold.argmax(-1)
        if self._differing is None and bool((ours != theirs).any()):
            row = int((ours != theirs).nonzero()[0])
            mine, other = int(ours[row]), int(theirs[row])
            margin = float(cold[row, other] - cold[row, mine])
            self._differing = Differing(
                position + row, mine, self._piece(mine), other, self._piece(other), margin
            )
