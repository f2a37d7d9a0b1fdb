"""A window of waiting requests before a cache that serves one at a time: what a policy is worth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.events import Int32Array
from chatkv.scheduler.request import Request
from chatkv.scheduler.waiting import WaitingQueue


class Asks(Protocol):
    """What a policy must know of an entry."""

    @property
    def session(self) -> str:
        """Whose it is."""

    @property
    def prompt(self) -> Int32Array:
        """What is looked up."""

    @property
    def scale(self) -> int:
        """Tokens that each id of ``prompt`` stands for."""

    @property
    def priority(self) -> int:
        """Larger goes first."""


T = TypeVar("T", bound=Asks)


class Turn(NamedTuple, Generic[T]):
    """``entry`` has its turn, as ``request``, whose ids count from 1 in file order."""

    entry: T
    request: Request


def turns(entries: Iterable[T], cache: KVCache, queue: WaitingQueue, window: int) -> Iterator[Turn[T]]:
    """``entries`` in the order of ``queue``'s policy, of which ``window`` wait at any time.

    The next one is chosen when it is asked for: what was cached until then counts. Raises ValueError for
    a window below 1.
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    source = enumerate(entries, start=1)
    waiting: dict[int, T] = {}
    served = 0
    while True:
        for number, entry in source:
            waiting[number] = entry
            request = Request(
                number,
                entry.session,
                entry.prompt,
                max_tokens=1,
                priority=entry.priority,
                unit=entry.scale,
            )
            request.arrived = served
            queue.add(request)
            if len(waiting) == window:
                break
        if not waiting:
            return
        queue.arrange(cache, served)
        chosen = queue.next()
        assert chosen is not None, "the first in the order waits for nobody"
        queue.admitted(chosen)
        served += chosen.prompt_tokens
        yield Turn(waiting.pop(chosen.id), chosen)
