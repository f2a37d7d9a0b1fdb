"""The engine as a library: prompts in, answers out, and the KV cache open to look at.

``LLM`` drives the engine's own thread (``engine/thread.py``). Nothing here imports torch: that thread does.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from types import TracebackType
from typing import Any, Self, cast, overload

from chatkv.engine.config import EngineConfig, EngineError
from chatkv.engine.messages import (
    Batch,
    Delta,
    EngineMessage,
    Failed,
    Finished,
    GenerateRequest,
    Loading,
    Measured,
    Prompt,
    Ready,
    Sampling,
)
from chatkv.engine.thread import Engine
from chatkv.insight.mirror import Mirror
from chatkv.insight.snapshot import Snapshot
from chatkv.kvcache.events import Event
from chatkv.outputs import Inbox, Output, Stream
from chatkv.prompts import AnyPrompt, Message, as_prompt, is_many

__all__ = ["LLM", "Events", "Output", "Stream"]

logger = logging.getLogger(__name__)

Progress = Callable[[str, float | None], None]
DEFAULT_MODEL = EngineConfig().model
CLOSED = "the engine was closed"
Listener = Callable[[Event], object]


class Events:
    """The engine's records as they happen: blocks, nodes, locks, evictions, requests, steps."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each event from now on; returns what ends it.

        It is called on the engine's thread, between two steps: whatever it does delays every request.
        One that raises is dropped and the error logged.
        """
        self._listeners = [*self._listeners, listener]

        def end() -> None:
            self._listeners = [other for other in self._listeners if other is not listener]

        return end

    def send(self, events: Iterable[Event]) -> None:
        """Hand ``events`` to every listener; the engine's thread calls it."""
        for listener in self._listeners:
            try:
                for event in events:
                    listener(event)
            except BaseException:  # also what a library raises to end its process: the engine goes on
                logger.exception("a listener of the cache's events raised; it hears no more")
                self._listeners = [other for other in self._listeners if other is not listener]


class LLM:
    """A model, its KV cache and its scheduler, in this process.

    ``model``: a name from ``chatkv models``, a Hugging Face folder or hub name, or a ``.gguf`` file.
    ``options``: the fields of ``EngineConfig`` (``block_size``, ``num_blocks``, ``kv_memory`` in bytes,
    ``cache``, ``eviction``, ``policy``, ``dtype``, ``threads`` …), as on the command line.

    All methods may be called from any thread; calls from several threads are answered in one batch.
    A request that fails ends alone, with ``Output.error``.
    """

    def __init__(
        self, model: str = DEFAULT_MODEL, *, progress: Progress | None = None, **options: Any
    ) -> None:
        """Load the model; returns when it takes requests. ``progress`` hears each stage and its share (0…1).

        Raises ChatkvError with one line that says what to do, and TypeError for an unknown option.
        """
        known = [f.name for f in fields(EngineConfig) if f.name != "model"]
        if unknown := [name for name in options if name not in known]:
            raise TypeError(f"LLM has no option {unknown[0]!r}; it has {', '.join(known)}")
        self.config = EngineConfig(model=model, **options).validate()
        self.events = Events()
        self._progress = progress or (lambda stage, fraction: None)
        self._started: queue.SimpleQueue[Loading | Ready | Failed] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._inboxes: dict[int, Inbox] = {}
        self._early: dict[int, list[Delta | Finished]] = {}
        """Of requests that were answered before ``_submit`` could know their ids."""
        self._measured: dict[int, queue.SimpleQueue[Measured]] = {}
        self._numbers = itertools.count(1)
        self._mirror = Mirror()
        self._unfolded: deque[Batch] = deque()
        self._closed = False
        self._engine = Engine(self.config, self._hear)
        self._engine.start()
        try:
            self.ready = self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    # --- asking -------------------------------------------------------------------------------------

    # A text is a list of texts to Python's types: hence the overlap.
    @overload
    def generate(  # type: ignore[overload-overlap]
        self, prompts: str, params: Sampling | None = None, *, session: str = "", namespace: str = ""
    ) -> Output: ...
    @overload
    def generate(
        self,
        prompts: Sequence[int] | Sequence[Message],
        params: Sampling | None = None,
        *,
        session: str = "",
        namespace: str = "",
    ) -> Output: ...
    @overload
    def generate(
        self,
        prompts: Sequence[AnyPrompt],
        params: Sampling | Sequence[Sampling] | None = None,
        *,
        session: str = "",
        namespace: str = "",
    ) -> list[Output]: ...
    def generate(
        self,
        prompts: AnyPrompt | Sequence[AnyPrompt],
        params: Sampling | Sequence[Sampling] | None = None,
        *,
        session: str = "",
        namespace: str = "",
    ) -> Output | list[Output]:
        """Return the answer to a prompt, or to each of a list of prompts, in order.

        A prompt is a text to go on with (BOS in front where the tokenizer adds one; control tokens that it
        spells are plain text), a list of token ids, or a chat as a list of messages. ``params``: one for
        all, or one for each. ``session`` is the name under which events and snapshots show the request
        (empty: one of its own); requests of different ``namespace`` never share blocks.

        Raises TypeError or ValueError for what is no prompt. A request that the engine turns down raises
        nothing: its ``Output`` says so.
        """
        many = is_many(prompts)
        wanted = (
            [as_prompt(p) for p in cast("Sequence[AnyPrompt]", prompts)] if many else [as_prompt(prompts)]
        )
        each = list(params) if isinstance(params, Sequence) else [params or Sampling()] * len(wanted)
        if len(each) != len(wanted):
            raise ValueError(f"{len(wanted)} prompts need as many SamplingParams, got {len(each)}")
        streams = [self._ask(p, s, session, namespace) for p, s in zip(wanted, each, strict=True)]
        try:
            for stream in streams:
                for _ in stream:
                    pass
        finally:
            for stream in streams:
                stream.close()
        self._fold()
        outputs = [stream.output for stream in streams]
        return outputs if many else outputs[0]

    def chat(
        self,
        messages: Sequence[Message],
        params: Sampling | None = None,
        *,
        session: str = "",
        namespace: str = "",
    ) -> Output:
        """Return the model's answer to a chat, by the model's own chat template.

        Append ``Output.turn`` and the next question to go on: the sampled ids are kept, so the next prompt
        finds all that this one computed.
        """
        return self.generate(messages, params, session=session, namespace=namespace)

    def stream(
        self, prompt: AnyPrompt, params: Sampling | None = None, *, session: str = "", namespace: str = ""
    ) -> Stream:
        """Return the answer to one prompt as it comes, for ``for`` as for ``async for``."""
        return self._ask(as_prompt(prompt), params or Sampling(), session, namespace)

    def lookup(self, prompt: AnyPrompt, *, session: str = "") -> Measured:
        """Return the tokens of a prompt, and how many of them the cache holds now. Changes nothing."""
        box: queue.SimpleQueue[Measured] = queue.SimpleQueue()
        with self._lock:
            self._check_open()
            ticket = next(self._numbers)
            self._measured[ticket] = box
            self._engine.measure(ticket, session, as_prompt(prompt))
        return box.get()

    # --- looking ------------------------------------------------------------------------------------

    @property
    def mirror(self) -> Mirror:
        """What the cache holds: nodes, blocks, requests, totals. It goes on only when it is asked for again
        (here, or by ``snapshot``) or a prompt is, never while it is being read in the same thread.
        """
        self._fold()
        return self._mirror

    def snapshot(self) -> Snapshot:
        """Return the cache as it is now; it can be saved, drawn and compared."""
        with self._lock:
            self._fold()
            return Snapshot.from_mirror(
                self._mirror,
                model=self.ready.model,
                attention=self.ready.attention,
                wall_s=time.time(),
                decode=self._engine.decode,
            )

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids, without control tokens."""
        return self._engine.decode(token_ids)

    def clear_cache(self) -> None:
        """Forget every cached prefix, as soon as no request is open."""
        self._engine.clear_cache()

    # --- ending -------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the engine; requests that are still open end with ``error``."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._engine.close()
        with self._lock:
            for request, inbox in self._inboxes.items():
                inbox.put(Finished(request, "", "error", CLOSED, "", (), 0, 0, 0, 0, None, 0.0))
            self._inboxes.clear()
            for ticket, box in self._measured.items():
                box.put(Measured(ticket, 0, 0, CLOSED))
            self._measured.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        ready: Ready | None = getattr(self, "ready", None)
        if ready is None:
            return f"<LLM {self.config.model}: not loaded>"
        pool = f"{ready.num_blocks} blocks of {ready.block_size} tokens"
        return f"<LLM {ready.model}: {ready.cache} cache, {pool}, {ready.dtype}, {ready.attention}>"

    def _repr_html_(self) -> str:
        return self.snapshot()._repr_html_()

    def __rich__(self) -> Any:
        return self.snapshot().__rich__()

    # --- inside -------------------------------------------------------------------------------------

    def _ask(self, prompt: Prompt, params: Sampling, session: str, namespace: str) -> Stream:
        inbox = Inbox()
        with self._lock:
            self._check_open()
            self._fold()  # else what nobody looks at would pile up
            name = session or f"prompt {next(self._numbers)}"
            request = self._engine.submit(GenerateRequest(name, prompt, params, namespace))
            for said in self._early.pop(request, ()):
                inbox.put(said)
                if isinstance(said, Finished):
                    return Stream(request, inbox, self._engine.stop)
            self._inboxes[request] = inbox
        return Stream(request, inbox, self._engine.stop)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("this LLM is closed: make a new one")

    def _wait_until_ready(self) -> Ready:
        while True:
            match self._started.get():
                case Loading() as loading:
                    self._progress(loading.stage, loading.fraction)
                case Failed() as failed:
                    raise EngineError(failed.message)
                case Ready() as ready:
                    return ready

    def _hear(self, said: EngineMessage) -> None:
        """Take in what the engine says; its thread calls it."""
        if isinstance(said, Loading | Ready | Failed):
            self._started.put(said)
        elif isinstance(said, Measured):
            with self._lock:
                box = self._measured.pop(said.ticket, None)
            if box is not None:
                box.put(said)
        else:
            self._hear_batch(said)

    def _hear_batch(self, batch: Batch) -> None:
        if batch.events:
            self._unfolded.append(batch)
            self.events.send(batch.events)
        if not (batch.deltas or batch.finished):
            return
        with self._lock:
            for delta in batch.deltas:
                self._hand_on(delta)
            for finished in batch.finished:
                self._hand_on(finished)
                self._inboxes.pop(finished.request, None)

    def _hand_on(self, said: Delta | Finished) -> None:
        if (inbox := self._inboxes.get(said.request)) is not None:
            inbox.put(said)
        elif not self._closed:
            self._early.setdefault(said.request, []).append(said)

    def _fold(self) -> None:
        with self._lock:
            while self._unfolded:
                batch = self._unfolded.popleft()
                self._mirror.apply_all(batch.events, batch.wall_s)
