"""An engine without a model: answers of made-up words at a steady pace, over a made-up cache."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence

from benchmarks.screen.made_up import BLOCK, Growing, MadeUpCache, words
from chatkv.engine.messages import (
    Batch,
    Delta,
    EngineMessage,
    Failed,
    Finished,
    GenerateRequest,
    Measured,
    Prompt,
    Ready,
)
from chatkv.errors import in_words
from chatkv.kvcache.events import Event

STEPS_A_SECOND = 60
_PROMPT = 100


class MadeUpEngine:
    """The verbs of ``EnginePort``. What ``cache`` held at the start is told by ``take_tree`` only."""

    def __init__(self, listener: Callable[[EngineMessage], None], cache: MadeUpCache) -> None:
        self._listener = listener
        self._cache = cache
        self._ids = itertools.count(cache.next_request)
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, GenerateRequest]] = []
        self._running: list[tuple[Growing, GenerateRequest]] = []
        self._stops: set[int] = set()
        self._closing = threading.Event()
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="made-up-engine", daemon=True)

    def start(self) -> None:
        """Ready at once."""
        self._listener(
            Ready(
                model="made-up",
                architecture="none",
                attention="none",
                dtype="none",
                cache="radix",
                policy="FCFS",
                block_size=BLOCK,
                num_blocks=self._cache.num_blocks,
                bytes_per_block=368_640,
                max_context=1 << 20,
                default_system=None,
                load_s=0.0,
            )
        )
        self._thread.start()

    @property
    def alive(self) -> bool:
        """False once its thread is over."""
        return self._thread.is_alive()

    def take_tree(self) -> Batch:
        """The tree that is there at the start, for whoever wants to see what its arrival costs."""
        return Batch(time.time(), self._cache.take(), (), ())

    def submit(self, request: GenerateRequest) -> int:
        """It is answered from the next step on."""
        with self._lock:
            id = next(self._ids)
            self._waiting.append((id, request))
        self._asked.set()
        return id

    def stop(self, request: int) -> None:
        """It ends with the next step."""
        self._stops.add(request)

    def close(self, timeout: float = 1.0) -> bool:
        """No more steps."""
        self._closing.set()
        self._asked.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def decode(self, ids: Sequence[int]) -> str:
        """The made-up words."""
        return words(ids)

    def clear_cache(self) -> None:
        """There is nothing behind it that could be cleared."""

    def pin(self, node: int, pinned: bool) -> None:
        """Nothing is ever evicted."""

    def verify(self, request: int) -> None:
        """There is nothing to compare with."""

    def measure(self, ticket: int, session: str, prompt: Prompt) -> None:
        """Every prompt is as long as every other."""
        self._listener(Measured(ticket, _PROMPT, 0))

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:  # else whoever measures waits for ever
            self._listener(Failed(f"the made-up engine stopped: {in_words(error)}"))

    def _loop(self) -> None:
        due = time.perf_counter()
        while not self._closing.is_set():
            if not self._running:
                # As the real engine does: what it takes while nothing runs would be counted as the screen's.
                self._asked.wait()
            self._asked.clear()
            due = max(due + 1 / STEPS_A_SECOND, time.perf_counter())
            time.sleep(max(0.0, due - time.perf_counter()))
            with self._lock:
                fresh, self._waiting = self._waiting, []
            if fresh or self._running:
                self._step(fresh)

    def _step(self, fresh: list[tuple[int, GenerateRequest]]) -> None:
        for id, request in fresh:
            growing = self._cache.open(request.session, _PROMPT)
            assert growing.id == id, "requests begin in the order they were submitted"
            self._running.append((growing, request))
        tokens = self._cache.step([growing for growing, _ in self._running])
        deltas = tuple(
            Delta(growing.id, request.session, words([token]), (token,))
            for (growing, request), token in zip(self._running, tokens, strict=True)
        )
        over = [
            (growing, request)
            for growing, request in self._running
            if len(growing.out) >= request.sampling.max_tokens or growing.id in self._stops
        ]
        for growing, _ in over:
            self._cache.close(growing)
        self._running = [pair for pair in self._running if pair not in over]
        self._tell(self._cache.take(), deltas, tuple(_finished(*pair) for pair in over))

    def _tell(
        self, events: tuple[Event, ...], deltas: tuple[Delta, ...] = (), finished: tuple[Finished, ...] = ()
    ) -> None:
        self._listener(Batch(time.time(), events, deltas, finished))


def _finished(growing: Growing, request: GenerateRequest) -> Finished:
    return Finished(
        request=growing.id,
        session=request.session,
        reason="length",
        message="",
        text=words(growing.out),
        token_ids=tuple(growing.out),
        prompt_tokens=growing.prompt,
        cached=0,
        copied=0,
        computed=growing.prompt,
        ttft_s=0.04,
        decode_s=len(growing.out) / STEPS_A_SECOND,
    )
