"""Which evictable leaf goes first. A strategy is a sort key: the smallest goes first.

Names and rules as in SGLang's radix cache. ``last`` and ``created`` are logical clock values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Candidate(Protocol):
    """What a strategy may look at."""

    @property
    def last(self) -> int:
        """Clock of the last use."""

    @property
    def created(self) -> int:
        """Clock of the creation."""

    @property
    def hits(self) -> int:
        """How often it was reused."""

    @property
    def priority(self) -> int:
        """The highest priority of those who stored it."""


Key = tuple[int, ...]


class Strategy(NamedTuple):
    """``key`` ends in a time."""

    name: str
    key: Callable[[Candidate], Key]


SLRU_THRESHOLD = 2
"""Hits from which ``slru`` counts a node as protected."""

STRATEGIES: dict[str, Strategy] = {
    s.name: s
    for s in (
        Strategy("lru", lambda n: (n.last,)),
        Strategy("lfu", lambda n: (n.hits, n.last)),
        Strategy("fifo", lambda n: (n.created,)),
        Strategy("mru", lambda n: (-n.last,)),
        Strategy("filo", lambda n: (-n.created,)),
        Strategy("priority", lambda n: (n.priority, n.last)),
        Strategy("slru", lambda n: (int(n.hits >= SLRU_THRESHOLD), n.last)),
    )
}


def strategy(name: str) -> Strategy:
    """The strategy called ``name``. Raises ValueError that lists the names."""
    if name not in STRATEGIES:
        raise ValueError(f"unknown eviction strategy {name!r}: choose one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
