"""In what order the waiting requests are looked at: the queue policies.

A policy gets the waiting requests in order of arrival (those of a larger priority before the others),
each with the tokens that the cache would spare it now, and orders them. All orders are stable: equals stay
in order of arrival. No policy says who is admitted; ``WaitingQueue`` does: a larger priority goes first
whatever the policy, and how often anyone is overtaken is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from chatkv.kvcache.cache import KVCache, blocks_for
from chatkv.kvcache.node import Node, token_data
from chatkv.kvcache.radix import RadixTree
from chatkv.scheduler.names import MATCH_LIMIT
from chatkv.scheduler.request import Request

SHARED_TOKENS = 32
"""From how many tokens on a shared beginning is worth a pass of waiting; a request that has more than
this in the cache already does not wait for another [S4]."""


class Waiter(NamedTuple):
    """A waiting request; ``matched`` tokens are cached (None: not looked up).

    ``held``: an earlier one is about to compute its beginning, so it waits a pass and then hits.
    """

    request: Request
    matched: int | None
    held: bool = False


Order = Callable[[list[Waiter], KVCache, int], list[Waiter]]
"""Waiters in order of arrival, the cache, and the tokens computed so far (the clock) → their order."""


class Policy(NamedTuple):
    """``matches``: it looks waiting requests up in the cache."""

    name: str
    matches: bool
    order: Order

    def rank(self, waiting: Sequence[Request], cache: KVCache, now: int) -> list[Waiter]:
        """``waiting`` (in order of arrival) in the order of this policy."""
        if self.matches and len(waiting) <= MATCH_LIMIT:
            waiters = [Waiter(r, cache.peek(r.tokens, r.namespace, r.session, r.lookup)) for r in waiting]
        else:
            waiters = [Waiter(request, None) for request in waiting]
        return self.order(waiters, cache, now)


def _fcfs(waiters: list[Waiter], cache: KVCache, now: int) -> list[Waiter]:
    """First come, first served [S1]."""
    return waiters


def _lpm(waiters: list[Waiter], cache: KVCache, now: int) -> list[Waiter]:
    """The longest cached prefix first; those who wait for an earlier one's prefix last [S1, S4]."""
    # What is shared can be found only in whole blocks while its owner runs.
    begun: set[tuple[str, bytes]] = set()
    out = []
    for waiter in waiters:
        request = waiter.request
        shared = max(blocks_for(SHARED_TOKENS, request.unit), cache.block_size)
        few = waiter.matched is not None and waiter.matched * request.unit <= SHARED_TOKENS
        if few and cache.kind != "none":
            start = (request.namespace, token_data(request.tokens[:shared]))
            waiter = waiter._replace(held=start in begun)
            if request.num_tokens >= shared:
                begun.add(start)
        out.append(waiter)
    return sorted(out, key=lambda w: (w.held, -(w.matched or 0)))


def _shortest_prefill(waiters: list[Waiter], cache: KVCache, now: int) -> list[Waiter]:
    """The fewest tokens to compute first."""
    return sorted(waiters, key=_service)


def _hrrn(waiters: list[Waiter], cache: KVCache, now: int) -> list[Waiter]:
    """The highest response ratio next: (waited + service) / service.

    Both in tokens: what the engine computed since the request came, and what is to be computed of it.
    """
    return sorted(waiters, key=lambda w: -(now - w.request.arrived) / _service(w))


def _service(waiter: Waiter) -> int:
    return waiter.request.num_tokens - (waiter.matched or 0)


def _dfs_weight(waiters: list[Waiter], cache: KVCache, now: int) -> list[Waiter]:
    """Depth first through the matched prefixes, the subtree with most waiters first [R25]."""
    size = cache.block_size
    tree = RadixTree(size)  # of the matched prefixes alone: in it every node leads to a waiter
    ends: dict[int, list[Waiter]] = {}
    for waiter in waiters:
        whole = (waiter.matched or 0) // size * size
        tokens = waiter.request.tokens[:whole]
        end = tree.insert(tokens, np.zeros(whole // size, np.int32), waiter.request.namespace).node
        ends.setdefault(end.id, []).append(waiter)
    weight: dict[int, int] = {}
    for node in reversed(list(tree.walk())):  # children before parents
        weight[node.id] = len(ends.get(node.id, ())) + sum(weight[c.id] for c in node.children.values())
    out: list[Waiter] = []

    def visit(children: list[Node]) -> None:
        for child in sorted(children, key=lambda c: -weight[c.id]):
            visit(list(child.children.values()))
            out.extend(ends.get(child.id, ()))

    visit([child for root in tree.roots.values() for child in root.children.values()])
    # All roots have one id; whoever matched nothing ends at one.
    return out + [waiter for waiter in waiters if (waiter.matched or 0) < size]


ORDERS: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("fcfs", False, _fcfs),
        Policy("lpm", True, _lpm),
        Policy("dfs-weight", True, _dfs_weight),
        Policy("hrrn", True, _hrrn),
        Policy("shortest-prefill-first", True, _shortest_prefill),
    )
}
"""The policies by name: those of ``names.POLICIES``."""
