"""What a step is to compute, and how a prompt is cut into chunks."""

from __future__ import annotations

from typing import NamedTuple

from chatkv.kvcache.cache import Copy
from chatkv.scheduler.request import Request


class Work(NamedTuple):
    """Compute tokens ``start … start + length - 1`` of ``request``; ``copies`` first.

    ``samples``: these are its last known tokens, so the next one is to be sampled.
    """

    request: Request
    start: int
    length: int
    samples: bool
    copies: tuple[Copy, ...]


class Plan(NamedTuple):
    """One step's work, and the requests that can't go on because each alone would fill the pool."""

    work: list[Work]
    exhausted: list[Request]


def next_work(request: Request, count: int, copies: tuple[Copy, ...] = ()) -> Work:
    """The next ``count`` tokens of ``request``."""
    return Work(request, request.computed, count, count == request.todo, copies)


def chunk(request: Request, budget: int, block_size: int, *, alone: bool) -> int:
    """How many tokens of ``request`` to compute now: all, or a chunk that ends with a block [S6].

    A chunk inside one block would be split off for nothing: 0, unless it is ``alone`` in its step.
    """
    if request.todo <= budget:
        return request.todo
    over = (request.computed + budget) % block_size
    if over < budget:
        return budget - over
    return budget if alone else 0
