"""The engine in its own thread: commands in through a queue, messages out through a listener.

torch is imported here, in that thread, so that a screen can paint before it is loaded.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import (
    Batch,
    EngineMessage,
    Failed,
    Finished,
    GenerateRequest,
    Loading,
    Measured,
    Prompt,
    unverified,
)
from chatkv.engine.outbox import Outbox
from chatkv.errors import ChatkvError, in_words

if TYPE_CHECKING:
    from chatkv.engine.core import EngineCore
    from chatkv.model.tokenizer import Codec

logger = logging.getLogger(__name__)

Listener = Callable[[EngineMessage], None]


class Command(NamedTuple):
    """``carry_out`` it on the engine's thread; where that can't be done, ``failed`` tells the asker why."""

    carry_out: Callable[[EngineCore], object]
    failed: Callable[[str], None]


class Engine:
    """``listener`` is called on the engine's thread and must return at once.

    All methods may be called from any thread. Requests may be submitted while the model loads; they
    run when it is ready, or end with ``error`` where it fails. Whatever ends the thread is told:
    ``Failed`` comes, then an error for each that waits for something. A command that fails does so alone.
    """

    def __init__(self, config: EngineConfig, listener: Listener) -> None:
        self.config = config
        self._listener = listener
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._ids = itertools.count(1)
        self._codec: Codec | None = None
        self._closing = threading.Event()
        self._failed: str | None = None
        self._lock = threading.Lock()
        self._open: dict[int, GenerateRequest] = {}
        """Submitted and not yet finished, so that a failure can end each of them."""
        # A daemon: quitting never waits for a forward.
        self._thread = threading.Thread(target=self._run, name="chatkv-engine", daemon=True)

    def start(self) -> None:
        """Begin to load; ``Loading`` … then ``Ready`` or ``Failed`` follow."""
        try:
            self._thread.start()
        except RuntimeError as error:  # the system gives no more threads
            self._fail(f"the engine could not start: {in_words(error)}; close other programs")

    @property
    def alive(self) -> bool:
        """False once its thread is over, whatever ended it."""
        return self._thread.is_alive()

    def submit(self, request: GenerateRequest) -> int:
        """Ask for an answer; returns the request's id at once. ``Finished`` follows, until ``close``.

        Where ``request.n`` answers are asked for, that is the first one's id, and the others have the
        ids behind it. After a failure ``Finished`` comes at once, on the caller's thread.
        """
        queued = time.perf_counter()
        with self._lock:
            ids = [next(self._ids) for _ in range(request.answers)]
            self._open.update(dict.fromkeys(ids, request))
        self._order(lambda core: core.add(ids[0], request, queued), partial(self._reject, ids))
        return ids[0]

    def stop(self, request: int) -> None:
        """End a request; ``Finished(reason="aborted")`` follows unless it is over already."""
        self._order(
            lambda core: core.stop(request),
            lambda why: self._note(f"request {request} goes on: {why}") if request in self._open else None,
        )

    def clear_cache(self) -> None:
        """Forget all cached prefixes as soon as no request is open."""
        self._order(
            lambda core: core.clear_cache(), lambda why: self._note(f"the cache was not cleared: {why}")
        )

    def pin(self, node: int, pinned: bool) -> None:
        """Have ``node`` of the cache's tree evicted last, or no longer; ``PinRefused`` tells if it can't."""
        self._order(
            lambda core: core.pin(node, pinned), lambda why: self._note(f"node {node} was not pinned: {why}")
        )

    def verify(self, request: int) -> None:
        """Compute a finished request again without the cache and compare; ``Verified`` follows.

        It comes in a ``Batch``, some steps later: others go on meanwhile. Before ``Ready`` it waits.
        """
        self._order(
            lambda core: core.verify(request),
            lambda why: self._tell(Batch(time.time(), verified=(unverified(request, "", why),))),
        )

    def measure(self, ticket: int, session: str, prompt: Prompt) -> None:
        """Tell what asking for an answer to ``prompt`` would cost; ``Measured`` follows.

        Nothing is changed by it, not even what was used last.
        """

        def tell(core: EngineCore) -> None:
            from chatkv.engine.measure import measure

            self._tell(measure(ticket, session, prompt, core.codec, core.cache))

        self._order(tell, lambda why: self._tell(Measured(ticket, 0, 0, why)))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, control tokens left out; "" before ``Ready``, U+FFFD where none can be made."""
        try:
            return "" if self._codec is None else self._codec.decode(ids)
        except ChatkvError:
            logger.exception("tokens could not be written out")
            return "\ufffd"

    def close(self, timeout: float = 1.0) -> bool:
        """Stop stepping and wait at most ``timeout`` seconds; never raises. True: the thread is over."""
        self._closing.set()
        self._commands.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _order(self, carry_out: Callable[[EngineCore], object], failed: Callable[[str], None]) -> None:
        """Have it done on the engine's thread; where that is over, say at once that it can't be."""
        with self._lock:
            why = self._failed
            if why is None:
                self._commands.put(Command(carry_out, failed))
        if why is not None:
            failed(why)

    # --- on the engine's thread -------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._load_and_loop()
        except ChatkvError as error:
            self._fail(str(error))
        except BaseException as error:  # a panic of Rust code, or what a library raises to end its process
            doing = "could not start" if self._codec is None else "stopped"
            logger.exception("the engine %s", doing)
            self._fail(f"the engine {doing}: {in_words(error)}")

    def _load_and_loop(self) -> None:
        outbox = Outbox()
        self._tell(Loading("starting the engine"))
        from chatkv.engine.loading import load

        core, ready = load(self.config, outbox, lambda stage, done: self._tell(Loading(stage, done)))
        self._codec = core.codec
        self._tell(ready)
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
                try:
                    command.carry_out(core)
                except BaseException as error:
                    logger.exception("a command failed")
                    command.failed(in_words(error))

    def _flush(self, outbox: Outbox) -> None:
        batch = outbox.drain()
        if batch is None:
            return
        if batch.finished:
            with self._lock:
                for finished in batch.finished:
                    self._open.pop(finished.request, None)
        self._tell(batch)

    # --- telling ----------------------------------------------------------------------------------

    def _tell(self, said: EngineMessage) -> None:
        self._listener(said)

    def _note(self, line: str) -> None:
        self._tell(Batch(time.time(), notes=(line,)))

    def _reject(self, ids: Iterable[int], why: str) -> None:
        """End those of the requests that are open."""
        with self._lock:
            lost = {id: request for id in ids if (request := self._open.pop(id, None)) is not None}
        if lost:
            ended = [
                Finished(id, request.session, "error", why, "", (), 0, 0, 0, 0, None, 0.0)
                for id, request in lost.items()
            ]
            self._tell(Batch(time.time(), finished=tuple(ended)))

    def _fail(self, why: str) -> None:
        """It is over: tell everybody who waits for anything, whoever of them can't be told."""
        with self._lock:
            self._failed = why
        last: list[Callable[[], None]] = [
            lambda: self._tell(Failed(why)),
            lambda: self._reject(tuple(self._open), why),
        ]
        # Nothing comes behind these: whoever asks from now on is told at once.
        while not self._commands.empty():
            if (command := self._commands.get()) is not None:
                last.append(partial(command.failed, why))
        for word in last:
            try:
                word()
            except BaseException:
                logger.exception("nobody could be told that the engine is over")
