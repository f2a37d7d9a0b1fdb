"""The queue of waiting requests: whose turn it is, and how often each was overtaken.

A request is *overtaken* whenever one that arrived later is admitted while it waits. Whatever the
policy, one that was overtaken ``max_overtaken`` times is *due*: nobody but an earlier due one is admitted
before it, whatever their priorities. So no request is ever overtaken more often than that. It keeps its
count when it is preempted.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator

from chatkv.kvcache.cache import KVCache
from chatkv.scheduler.names import MATCH_LIMIT
from chatkv.scheduler.policy import ORDERS, Waiter
from chatkv.scheduler.request import Request

SHOWN = 128
"""How many places in the queue are told to whoever looks on."""


class WaitingQueue:
    """Owns the waiting requests; iterating gives them in order of arrival.

    ``max_overtaken`` 0: the policy alone decides. Raises ValueError for an unknown policy or a
    negative bound.
    """

    def __init__(self, policy: str = "fcfs", max_overtaken: int = 0) -> None:
        if policy not in ORDERS:
            raise ValueError(f"unknown policy {policy!r}: choose one of {', '.join(ORDERS)}")
        if max_overtaken < 0:
            raise ValueError(f"max_overtaken must be at least 0, got {max_overtaken}")
        self.policy = ORDERS[policy]
        self.max_overtaken = max_overtaken
        self._requests: list[Request] = []
        self._due: list[Request] = []
        """Both in order of arrival."""
        self._order: list[Waiter] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    @property
    def in_force(self) -> str:
        """The policy that orders now: ``fcfs`` where too many wait to match them."""
        if self.policy.name in ("lpm", "dfs-weight") and len(self._requests) > MATCH_LIMIT:
            return "fcfs"
        return self.policy.name

    def add(self, request: Request) -> None:
        """It waits, at the place of its arrival."""
        insort(self._requests, request, key=_arrival)
        if self.due(request):
            insort(self._due, request, key=_arrival)

    def remove(self, request: Request) -> None:
        """It waits no longer. Raises ValueError where it does not."""
        self._requests.remove(request)
        if request in self._due:
            self._due.remove(request)

    def arrange(self, cache: KVCache, now: int) -> None:
        """Look the waiting requests up and order them; ``now``: the tokens computed so far.

        A larger priority goes first, as in SGLang (in vLLM it is the smaller one). They come to the policy
        in that order too, so that none waits for the prefix of one with less.
        """
        requests = sorted(self._requests, key=lambda r: -r.priority)
        self._order = self.policy.rank(requests, cache, now)
        self._order.sort(key=lambda w: -w.request.priority)
        if self._due:
            late = {request.id for request in self._due}
            self._order.sort(key=lambda w: (0, w.request.id) if w.request.id in late else (1, 0))

    def next(self) -> Request | None:
        """Whose turn it is by the last ``arrange``; None where all who are left wait for another's prefix."""
        if self._due:
            return self._due[0]
        waiting = (w for w in self._order if not w.held)
        return next((w.request for w in waiting), None)

    def admitted(self, request: Request) -> None:
        """``request`` was admitted, past all who came before it and wait."""
        self.remove(request)
        self._order = [w for w in self._order if w.request is not request]
        self.passed_by(request)

    def may_pass(self, request: Request) -> bool:
        """Whether ``request``, which does not wait, may run now: nobody who came before it is due, and
        nobody of a larger priority waits.
        """
        if any(other.priority > request.priority for other in self._requests):
            return False
        return not self._due or request.id < self._due[0].id

    def due(self, request: Request) -> bool:
        """Whether ``request`` was overtaken as often as anyone may be."""
        return 0 < self.max_overtaken <= request.overtaken

    def passed_by(self, request: Request) -> None:
        """``request`` runs: all who came before it and wait were overtaken once more."""
        for other in self._requests:
            if other.id > request.id:
                break
            other.overtaken += 1
            if other.overtaken == self.max_overtaken:
                insort(self._due, other, key=_arrival)

    def places(self) -> tuple[tuple[int, int | None, int], ...]:
        """(request, matched, overtaken) of the first waiting requests, in order of their turns.

        Whoever came or was preempted since the last ``arrange`` stands at the end.
        """
        here = {request.id for request in self._requests}
        known = [w for w in self._order if w.request.id in here]
        new = here.difference(w.request.id for w in known)
        late = [Waiter(request, None) for request in self._requests if request.id in new]
        return tuple((w.request.id, w.matched, w.request.overtaken) for w in (known + late)[:SHOWN])


def _arrival(request: Request) -> int:
    return request.id
