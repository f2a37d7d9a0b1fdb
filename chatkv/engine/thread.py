"""The engine in its own thread: commands in through a queue, messages out through a listener.

torch is imported here, in that thread, so that a screen can paint before it is loaded.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import (
    Batch,
    EngineMessage,
    Failed,
    Finished,
    GenerateRequest,
    Loading,
    Prompt,
)
from chatkv.engine.outbox import Outbox
from chatkv.errors import ChatkvError

if TYPE_CHECKING:
    from chatkv.engine.core import EngineCore

logger = logging.getLogger(__name__)

Command = Callable[["EngineCore"], None]
Listener = Callable[[EngineMessage], None]


class Engine:
    """``listener`` is called on the engine's thread and must return at once.

    All methods may be called from any thread. Requests may be submitted while the model loads; they
    run when it is ready, or end with ``error`` where it fails.
    """

    def __init__(self, config: EngineConfig, listener: Listener) -> None:
        self.config = config
        self._listener = listener
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._ids = itertools.count(1)
        self._core: EngineCore | None = None
        self._closing = threading.Event()
        self._failed: str | None = None
        self._lock = threading.Lock()
        self._open: dict[int, GenerateRequest] = {}
        """Submitted and not yet finished, so that a failure can end each of them."""
        # A daemon: quitting never waits for a forward.
        self._thread = threading.Thread(target=self._run, name="chatkv-engine", daemon=True)

    def start(self) -> None:
        """Begin to load; ``Loading`` … then ``Ready`` or ``Failed`` follow."""
        self._thread.start()

    def submit(self, request: GenerateRequest) -> int:
        """Ask for an answer; returns the request's id at once. ``Finished`` follows, until ``close``.

        Where ``request.n`` answers are asked for, that is the first one's id, and the others have the
        ids behind it. After a failure ``Finished`` comes at once, on the caller's thread.
        """
        queued = time.perf_counter()
        with self._lock:
            ids = [next(self._ids) for _ in range(request.answers)]
            if self._failed is None:
                self._open.update(dict.fromkeys(ids, request))
                self._commands.put(lambda core: core.add(ids[0], request, queued))
                return ids[0]
        self._listener(self._rejections(dict.fromkeys(ids, request)))
        return ids[0]

    def stop(self, request: int) -> None:
        """End a request; ``Finished(reason="aborted")`` follows unless it is over already."""
        self._commands.put(lambda core: core.stop(request))

    def clear_cache(self) -> None:
        """Forget all cached prefixes as soon as no request is open."""
        self._commands.put(lambda core: core.clear_cache())

    def pin(self, node: int, pinned: bool) -> None:
        """Have ``node`` of the cache's tree evicted last, or no longer; ``PinRefused`` tells if it can't."""
        self._commands.put(lambda core: core.pin(node, pinned))

    def verify(self, request: int) -> None:
        """Compute a finished request again without the cache and compare; ``Verified`` follows.

        It comes in a ``Batch``, some steps later: others go on meanwhile. Before ``Ready`` it waits.
        """
        self._commands.put(lambda core: core.verify(request))

    def measure(self, ticket: int, session: str, prompt: Prompt) -> None:
        """Tell what asking for an answer to ``prompt`` would cost; ``Measured`` follows.

        Nothing is changed by it, not even what was used last.
        """

        def tell(core: EngineCore) -> None:
            from chatkv.engine.measure import measure

            self._listener(measure(ticket, session, prompt, core.codec, core.cache))

        self._commands.put(tell)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, control tokens left out; "" before ``Ready``."""
        return "" if self._core is None else self._core.codec.decode(ids)

    def close(self, timeout: float = 1.0) -> bool:
        """Stop stepping and wait at most ``timeout`` seconds; never raises. True: the thread is over."""
        self._closing.set()
        self._commands.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # --- on the engine's thread -------------------------------------------------------------------

    def _run(self) -> None:
        outbox = Outbox()
        try:
            self._listener(Loading("starting the engine"))
            from chatkv.engine.loading import load

            core, ready = load(self.config, outbox, lambda stage, done: self._listener(Loading(stage, done)))
        except ChatkvError as error:
            self._fail(str(error))
            return
        except Exception as error:
            logger.exception("the engine could not start")
            self._fail(f"the engine could not start: {type(error).__name__}: {error}")
            return
        self._core = core
        self._listener(ready)
        try:
            self._loop(core, outbox)
        except Exception as error:
            logger.exception("the engine's loop died")
            self._fail(f"the engine stopped: {type(error).__name__}: {error}; start chatkv again")

    def _loop(self, core: EngineCore, outbox: Outbox) -> None:
        self._flush(outbox)  # the cache exists, and all its blocks are free
        while not self._closing.is_set():
            self._obey(core)
            if core.has_work and not self._closing.is_set():
                core.step()
            self._flush(outbox)

    def _obey(self, core: EngineCore) -> None:
        """Carry out what is in the queue; wait for something where there is nothing to compute."""
        wait = not core.has_work
        while not self._closing.is_set():
            try:
                command = self._commands.get(block=wait)
            except queue.Empty:
                return
            wait = False
            if command is not None:
                command(core)

    def _flush(self, outbox: Outbox) -> None:
        batch = outbox.drain()
        if batch is None:
            return
        if batch.finished:
            with self._lock:
                for finished in batch.finished:
                    self._open.pop(finished.request, None)
        self._listener(batch)

    def _fail(self, message: str) -> None:
        with self._lock:
            self._failed = message
            lost, self._open = self._open, {}
        self._listener(Failed(message))
        if lost:
            self._listener(self._rejections(lost))

    def _rejections(self, requests: dict[int, GenerateRequest]) -> Batch:
        message = self._failed or ""
        ended = [
            Finished(id, request.session, "error", message, "", (), 0, 0, 0, 0, None, 0.0)
            for id, request in requests.items()
        ]
        return Batch(time.time(), (), (), tuple(ended))
