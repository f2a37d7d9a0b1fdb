"""One engine for an app, again and again, and for the runs without one in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Batch, EngineMessage, Failed, GenerateRequest, Ready, Sampling, Turn
from chatkv.engine.thread import Engine
from chatkv.errors import ChatkvError

QUESTION = "Tell me a long story about the number {}, with many turns."
_WAIT_S = 120.0


@dataclass
class Answers:
    """``size`` answers asked for at once: when each step's tokens came."""

    size: int
    started: float = field(default_factory=time.perf_counter)
    steps: list[tuple[float, int]] = field(default_factory=list)
    begun: set[int] = field(default_factory=set)
    all_begun: float = 0.0
    first_end: float = 0.0
    last_end: float = 0.0
    prompt_tokens: list[int] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    ended: Callable[[], object] = lambda: None
    """Called behind ``over``, on the engine's thread."""

    def hear(self, batch: Batch) -> None:
        """On the engine's thread."""
        now = time.perf_counter()
        count = sum(len(delta.token_ids) for delta in batch.deltas)
        if count:
            self.steps.append((now, count))
            self.begun.update(delta.request for delta in batch.deltas)
            if len(self.begun) == self.size and not self.all_begun:
                self.all_begun = now
        for finished in batch.finished:
            self.prompt_tokens.append(finished.prompt_tokens)
            self.first_end = self.first_end or now
            self.last_end = now
        if len(self.prompt_tokens) == self.size:
            self.over.set()
            self.ended()

    @property
    def decode_tps(self) -> float:
        """While all of them decode."""
        tokens = sum(count for at, count in self.steps if self.all_begun < at <= self.first_end)
        return tokens / (self.first_end - self.all_begun)

    @property
    def whole_tps(self) -> float:
        """From the questions to the last token."""
        return sum(count for _, count in self.steps) / (self.last_end - self.started)


class SharedEngine:
    """One engine for the app, again and again, and for runs without it."""

    def __init__(self, config: EngineConfig) -> None:
        self._engine = Engine(config, self._hear)
        self._listener: Callable[[EngineMessage], None] = lambda said: None
        self._made: Batch | None = None
        """Tells that the cache was made: an app that begins later has to know."""
        self._ready = threading.Event()
        self.ready: Ready | None = None
        self._failed = ""
        self.run: Answers | None = None

    def load(self) -> None:
        """Raises ChatkvError where the engine can't be had."""
        self._engine.start()
        if not self._ready.wait(_WAIT_S) or self._failed:
            raise ChatkvError(self._failed or "the engine was not ready in time")

    def port(self, listener: Callable[[EngineMessage], None]) -> _Port:
        """For an app."""
        return _Port(self, listener)

    def connect(self, listener: Callable[[EngineMessage], None]) -> None:
        """Tell an app what it has missed, and everything from now on."""
        self._listener = listener
        for said in (self.ready, self._made):
            if said is not None:
                listener(said)

    def leave(self) -> None:
        """The app is gone."""
        self._listener = lambda said: None

    def headless(self, size: int, sampling: Sampling) -> Answers:
        """``size`` answers at once without a screen."""
        self._engine.clear_cache()
        run = self.run = Answers(size)
        for number in range(size):
            turns = (Turn("user", QUESTION.format(number)),)
            self._engine.submit(GenerateRequest(f"headless {number}", turns, sampling))
        if not run.over.wait(_WAIT_S):
            raise ChatkvError("the engine did not answer in time")
        return run

    def close(self) -> None:
        """End its thread."""
        self._engine.close()

    @property
    def engine(self) -> Engine:
        """The engine itself."""
        return self._engine

    def _hear(self, said: EngineMessage) -> None:
        if isinstance(said, Ready):
            self.ready = said
        elif isinstance(said, Failed):
            self._failed = said.message
            self._ready.set()
        elif isinstance(said, Batch):
            if self._made is None:
                self._made = said
                self._ready.set()
            if self.run is not None:
                self.run.hear(said)
        self._listener(said)


class _Port:
    """``EnginePort`` over an engine that was started before and goes on afterwards."""

    def __init__(self, shared: SharedEngine, listener: Callable[[EngineMessage], None]) -> None:
        self._shared = shared
        self._listener = listener

    def start(self) -> None:
        """It runs already."""
        self._shared.connect(self._listener)

    def close(self, timeout: float = 1.0) -> bool:
        """It goes on."""
        self._shared.leave()
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared.engine, name)
