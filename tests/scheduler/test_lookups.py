"""One look-up an admission: what was found is carried from the queue's order to reuse and the ledger."""

from __future__ import annotations

import pytest

from chatkv.kvcache.events import EventLog
from chatkv.kvcache.history import History
from chatkv.kvcache.radix import RadixTree
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.scheduler.scheduler import Scheduler
from tests.scheduler.lives import finish_step, request


@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
def test_an_admission_descends_the_tree_once(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"descend": 0, "walk": 0}
    descend, walk = RadixTree._descend, History.walk

    def counted_descend(*args: object) -> object:
        counts["descend"] += 1
        return descend(*args)  # type: ignore[arg-type]

    def counted_walk(*args: object) -> object:
        counts["walk"] += 1
        return walk(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(RadixTree, "_descend", counted_descend)
    monkeypatch.setattr(History, "walk", counted_walk)
    scheduler = Scheduler(RadixCache(64, 4, log=EventLog(lambda event: None)), policy=policy)
    for id in (1, 2, 3):
        scheduler.add(request(id, 30, max_tokens=1))
        counts.update(descend=0, walk=0)
        plan = scheduler.plan()
        assert counts == {"descend": 1, "walk": 1}
        finish_step(scheduler, plan)
