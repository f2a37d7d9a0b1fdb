"""An answer, whole or as it comes."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self, cast

from chatkv.engine.messages import Delta, Finished, TokenLogprob, Turn

FAILED = ("error", "refused")


@dataclass(frozen=True, slots=True)
class Output:
    """One answer, and what it cost. Counts are tokens, times are seconds."""

    text: str
    token_ids: tuple[int, ...]
    """The sampled ids, thinking and end token included."""
    finish_reason: str
    """``stop``, ``length``, ``context`` or ``cache full`` (no room for more), ``aborted``, ``refused``
    or ``error``."""
    error: str
    """Where the model did not end it by itself, one line that says why and what to do; else empty."""
    prompt_tokens: int
    reused: int
    """Of the prompt's tokens, those whose KV was in the cache; ``copied`` of them by partial-block copy."""
    copied: int
    computed: int
    ttft_s: float | None
    """From the call to the first token; None where there was none."""
    decode_s: float
    """From the first token to the last."""
    thinking: str
    logprobs: tuple[TokenLogprob, ...]
    """One for each sampled token, where ``SamplingParams.logprobs`` asks for them."""
    request: int
    """The id under which events name it."""
    session: str

    @property
    def ok(self) -> bool:
        """Whether the engine answered (``error`` says why it did not)."""
        return self.finish_reason not in FAILED

    @property
    def tokens_per_s(self) -> float | None:
        """Decode speed; None where fewer than two tokens came."""
        return (len(self.token_ids) - 1) / self.decode_s if self.decode_s > 0 else None

    @property
    def turn(self) -> Turn:
        """The answer as a message of the chat that goes on: with its ids, the next prompt hits its KV."""
        return Turn("assistant", self.text, self.token_ids)

    @classmethod
    def of(cls, finished: Finished) -> Output:
        """Return what the engine reported at a request's end."""
        return cls(
            text=finished.text,
            token_ids=finished.token_ids,
            finish_reason=finished.reason,
            error=finished.message,
            prompt_tokens=finished.prompt_tokens,
            reused=finished.cached,
            copied=finished.copied,
            computed=finished.computed,
            ttft_s=finished.ttft_s,
            decode_s=finished.decode_s,
            thinking=finished.thinking,
            logprobs=finished.logprobs,
            request=finished.request,
            session=finished.session,
        )


class Inbox:
    """What the engine said about one request, from its thread to whoever waits in another, or in a loop."""

    def __init__(self) -> None:
        self._said: queue.SimpleQueue[Delta | Finished] = queue.SimpleQueue()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._lock = threading.Lock()

    def put(self, said: Delta | Finished) -> None:
        """Add what the engine's thread has to say."""
        self._said.put(said)
        with self._lock:
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            loop, future = waiter
            if not loop.is_closed():
                loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(None))

    def get(self) -> Delta | Finished:
        """Wait for the next, and return it."""
        return self._said.get()

    async def get_async(self) -> Delta | Finished:
        """As ``get``, in an event loop."""
        while True:
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            with self._lock:
                self._waiter = (loop, future)
            try:
                return self._said.get_nowait()
            except queue.Empty:
                await future


class Stream:
    """An answer as it comes: iterate over its ``Delta`` (``for`` or ``async for``), then read ``output``.

    Leaving it early (``close``, the end of a ``with`` block, or dropping it) stops the request.
    """

    def __init__(self, request: int, inbox: Inbox, stop: Callable[[int], None]) -> None:
        self.request = request
        self._inbox, self._stop = inbox, stop
        self._output: Output | None = None

    @property
    def output(self) -> Output:
        """The whole answer. Raises RuntimeError before its end."""
        if self._output is None:
            raise RuntimeError("the answer is not complete yet: iterate to its end first")
        return self._output

    def close(self) -> None:
        """Stop the request unless it is over. What was computed of it stays in the cache."""
        if self._output is None:
            self._stop(self.request)

    def __iter__(self) -> Iterator[Delta]:
        return self

    def __next__(self) -> Delta:
        if self._output is None and isinstance(said := self._inbox.get(), Delta):
            return said
        elif self._output is None:
            self._output = Output.of(cast(Finished, said))
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        if self._output is None:
            said = await self._inbox.get_async()
            if isinstance(said, Delta):
                return said
            self._output = Output.of(said)
        raise StopAsyncIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
