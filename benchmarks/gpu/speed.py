"""How fast one device decodes and reads prompts, and what of a step is the engine's own time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.gpu.device_time import attention_seconds, device_seconds, kernel_seconds
from benchmarks.gpu.roofline import copy_bandwidth, share, step_bytes, weight_bytes
from chatkv.attention.base import PagedBatch
from chatkv.engine.core import EngineCore
from chatkv.engine.messages import GenerateRequest, Sampling
from chatkv.engine.outbox import Outbox
from chatkv.engine.runner import Part, laid_out
from chatkv.errors import ChatkvError, UsageError
from chatkv.kvcache.cache import blocks_for
from chatkv.scheduler.events import StepDone

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Speed:
    """What to measure. ``batches``: how many decode at once, one measurement each; the rest in tokens."""

    batches: tuple[int, ...] = (1, 8, 64)
    context: int = 512
    """Of each request when decoding begins."""
    steps: int = 64
    """Decode steps that are timed."""
    prompt: int = 1024
    """Of the requests whose time to the first token is taken."""
    rounds: int = 3

    def validate(self) -> Speed:
        """Return self; raise UsageError where a value can't work."""
        for name, value in (("--context", self.context), ("--steps", self.steps), ("--prompt", self.prompt)):
            if value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")
        if not self.batches or min(self.batches) < 1:
            raise UsageError("--batch takes numbers of at least 1")
        return self

    @property
    def answer(self) -> int:
        """Tokens that a request decodes until the last step is timed."""
        return WARM_UP + self.steps + 4

    @property
    def tokens(self) -> int:
        """Of KV that the longest request has."""
        return max(self.context + self.answer, self.prompt + ASKED_MORE + 2)

    def blocks(self, block_size: int) -> int:
        """That all requests of the largest batch need at once, or the prompts measured last."""
        # One more each: where a prompt's cached part ends within a block, its slots are copied.
        return max(max(self.batches), 2) * (1 - -self.tokens // block_size)


WARM_UP = 8
"""Decode steps before those that are timed."""
ASKED_MORE = 8
"""Tokens behind a prompt that is cached."""


class DecodeSpeed(NamedTuple):
    """Seconds are medians over the steps. ``outside_s``: of a step, all but the model's forward. Known where
    a step was captured: ``device_s``, what the device alone needs for it; ``attention_s``, what of that
    FlashInfer's kernels take; ``alone_s``, what they take over the same KV with nothing between.
    """

    batch: int
    graphs: bool
    tokens_per_s: float
    step_s: float
    outside_s: float
    device_s: float | None
    bytes_read: float
    roofline: float
    attention_s: float | None = None
    alone_s: float | None = None

    @property
    def times_alone(self) -> float | None:
        """Attention in a step, over the library's kernels alone; 1 is what there is to reach."""
        return self.attention_s / self.alone_s if self.attention_s and self.alone_s else None

    @property
    def overhead_s(self) -> float | None:
        """Of a step, what the device did not compute in."""
        return None if self.device_s is None else self.step_s - self.device_s


@dataclass
class SpeedResult:
    """All figures of a run; bytes, seconds, tokens a second."""

    copy_bandwidth: float
    weight_bytes: int
    decode: list[DecodeSpeed] = field(default_factory=list)
    prefill_tokens_per_s: float = 0.0
    ttft_cold_s: float = 0.0
    ttft_cached_s: float = 0.0


class Bench:
    """Drives ``core`` step by step, and is its only user."""

    def __init__(
        self,
        core: EngineCore,
        outbox: Outbox,
        speed: Speed,
        progress: Progress,
        kernels: Callable[[Callable[[], object], torch.device], dict[str, float]] = kernel_seconds,
    ) -> None:
        """``kernels``: what tells the seconds of a call's kernels by their names."""
        self._kernels = kernels
        self._core, self._outbox, self._speed, self._progress = core, outbox, speed, progress
        self._device = core.runner.decoder.device
        self._vocab = core.runner.decoder.config.vocab
        self._rng = np.random.default_rng(0)
        self._ids = 0
        self._failed = ""

    def run(self) -> SpeedResult:
        """Measure; raises ChatkvError where a request ends early."""
        speed, graphs = self._speed, self._core.runner.graphs
        stages = len(speed.batches) * (1 + (graphs is not None)) + 1
        self._progress("memory", 0, stages)
        weights = self._core.runner.decoder.weights
        result = SpeedResult(copy_bandwidth(self._device), weight_bytes(weights))
        for batch in speed.batches:
            for kind in (None,) if graphs is None else (graphs, None):
                label = f"decode {batch}" + (" with graphs" if kind is not None else "")
                self._progress(label, len(result.decode), stages)
                self._core.runner.graphs = kind
                result.decode.append(self._decode(batch, result.copy_bandwidth))
            self._core.runner.graphs = graphs
        self._progress("prompts", stages - 1, stages)
        self._prompts(result)
        return result

    def _decode(self, batch: int, bandwidth: float) -> DecodeSpeed:
        speed, graphs = self._speed, self._core.runner.graphs
        prompts = [self._prompt(speed.context) for _ in range(batch)]
        for prompt in prompts:
            self._first_token(prompt)
        # All but one token of each is cached now, so that all begin to decode at once.
        ids = [self._ask(prompt, speed.answer) for prompt in prompts]
        live = self._core.live
        while not all(live[id].request.output_tokens for id in ids):
            self._step()
        for _ in range(WARM_UP):
            self._step()
        replayed = graphs is not None and batch <= graphs.rows
        times: list[float] = []
        outside: list[float] = []
        lens: list[int] = []
        for _ in range(speed.steps):
            lens.append(sum(live[id].request.num_tokens for id in ids))
            took, rest = self._step()
            times.append(took)
            outside.append(rest)
        device_s = attention_s = alone_s = None
        if graphs is not None and replayed:

            def again() -> None:
                graphs.again(batch)

            device_s = device_seconds(again, self._device)
            attention_s = attention_seconds(self._kernels(again, self._device))
            alone_s = device_seconds(graphs.attend_only(self._held(ids)), self._device)
        for id in ids:
            self._core.stop(id)
        self._step()
        step_s = median(times)
        read = step_bytes(self._core.runner.decoder, [median(lens)])
        return DecodeSpeed(
            batch,
            replayed,
            batch / step_s,
            step_s,
            median(outside),
            device_s,
            read,
            share(read, step_s, bandwidth),
            attention_s,
            alone_s,
        )

    def _held(self, ids: Sequence[int]) -> PagedBatch:
        """A decode step over what the KV holds of the requests ``ids``."""
        size, cache = self._core.runner.block_size, self._core.cache
        parts = []
        for id in ids:
            request = self._core.live[id].request
            held = request.num_tokens - 1
            blocks = cache.row(id).blocks.array[: blocks_for(held, size)]
            parts.append(Part(request.tokens[held - 1 : held], held - 1, blocks, 0))
        return laid_out(parts, size)[0]

    def _prompts(self, result: SpeedResult) -> None:
        cold, cached = [], []
        for _ in range(1 + self._speed.rounds):  # the first is not counted
            prompt = self._prompt(self._speed.prompt)
            cold.append(self._first_token(prompt))
            cached.append(self._first_token([*prompt, *self._prompt(ASKED_MORE)]))
        result.ttft_cold_s, result.ttft_cached_s = median(cold[1:]), median(cached[1:])
        result.prefill_tokens_per_s = self._speed.prompt / result.ttft_cold_s

    def _first_token(self, prompt: list[int]) -> float:
        begun = time.perf_counter()
        self._ask(prompt, 1)
        while self._core.live:
            self._step()
        return time.perf_counter() - begun

    def _prompt(self, tokens: int) -> list[int]:
        ids: list[int] = self._rng.integers(0, self._vocab, tokens).tolist()
        return ids

    def _ask(self, prompt: list[int], max_tokens: int) -> int:
        self._ids += 1
        sampling = Sampling(max_tokens=max_tokens, ignore_stop=True)
        request = GenerateRequest(f"s{self._ids}", tuple(prompt), sampling)
        self._core.add(self._ids, request, time.perf_counter())
        self._hear()
        return self._ids

    def _step(self) -> tuple[float, float]:
        """Seconds of a step, and of what of it was outside the forward."""
        begun = time.perf_counter()
        self._core.step()
        took = time.perf_counter() - begun
        return took, self._hear()

    def _hear(self) -> float:
        """Seconds outside the forward, as the step said; raises ChatkvError where a request failed."""
        batch = self._outbox.drain()
        if batch is None:
            return 0.0
        for ended in batch.finished:
            if ended.reason not in ("length", "aborted"):
                raise ChatkvError(f"a measured request ended early: {ended.message or ended.reason}")
        return sum(e.step_s - e.forward_s for e in batch.events if isinstance(e, StepDone))
