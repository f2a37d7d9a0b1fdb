"""What the screen is told of the queue: places, matched tokens, how often overtaken."""

from __future__ import annotations

from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import Event, EventLog
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.scheduler import events as ev
from chatkv.scheduler.scheduler import Scheduler
from tests.scheduler.lives import asking, finish_step, request, run_all, warm


def listening(num_blocks: int = 256, **options: object) -> tuple[Scheduler, list[Event], Mirror]:
    events: list[Event] = []
    mirror = Mirror()

    def hear(event: Event) -> None:
        events.append(event)
        mirror.apply(event)

    cache = RadixCache(num_blocks, 4, log=EventLog(hear))
    return Scheduler(cache, **options), events, mirror  # type: ignore[arg-type]


def orders(events: list[Event]) -> list[ev.QueueOrdered]:
    return [event for event in events if isinstance(event, ev.QueueOrdered)]


def test_places_matched_and_overtaken_are_told_and_folded() -> None:
    scheduler, events, mirror = listening(policy="lpm", max_running=1)
    hot = range(100, 140)
    warm(scheduler.cache, hot, 900)
    scheduler.add(request(1, 10, max_tokens=2))
    finish_step(scheduler, scheduler.plan())
    assert orders(events) == [], "nobody had to wait"
    scheduler.add(request(2, 10, first=50, max_tokens=2))  # cold
    scheduler.add(asking(3, hot, [7, 8], max_tokens=2))
    scheduler.add(asking(4, hot, [9], max_tokens=2))
    finish_step(scheduler, scheduler.plan())
    assert [o.order for o in orders(events)] == [((3, 40, 0), (4, 40, 0), (2, 0, 0))]
    assert orders(events)[-1].policy == mirror.policy == "lpm"
    finish_step(scheduler, scheduler.plan())  # 1 is over after its second token, 3 begins
    waiting = mirror.waiting
    assert [(v.id, v.place, v.matched, v.overtaken) for v in waiting] == [(4, 0, 40, 0), (2, 1, 0, 1)]
    run_all(scheduler)
    assert orders(events)[-1].order == ()
    assert mirror.waiting == []
    assert mirror.requests[2].overtaken == 2
    assert (mirror.requests[2].place, mirror.requests[2].matched) == (None, None)
    started = [e for e in events if isinstance(e, ev.RequestAdmitted)]
    assert [(e.request, e.overtaken) for e in started] == [(1, 0), (3, 0), (4, 0), (2, 2)]


def test_it_is_told_only_when_it_changed() -> None:
    scheduler, events, _ = listening(policy="lpm", max_running=1)
    for id in (1, 2, 3):
        scheduler.add(request(id, 10, first=100 * id, max_tokens=20))
    for _ in range(15):
        finish_step(scheduler, scheduler.plan())
    assert [o.order for o in orders(events)] == [((2, 0, 0), (3, 0, 0))]


def test_fcfs_looks_nothing_up_and_says_so() -> None:
    scheduler, events, mirror = listening(max_running=1)
    for id in (1, 2):
        scheduler.add(request(id, 10, max_tokens=5))
    scheduler.plan()
    assert [o.order for o in orders(events)] == [((2, None, 0),)]
    assert mirror.policy == "fcfs"


def test_a_new_one_and_a_preempted_one_have_a_place_too() -> None:
    scheduler, _, mirror = listening(num_blocks=8, policy="lpm")
    for id in (1, 2):
        scheduler.add(request(id, 11, first=500 * id, max_tokens=12))
    while not mirror.totals.preempted:
        finish_step(scheduler, scheduler.plan())
    scheduler.add(request(3, 4, first=77, max_tokens=2))
    assert [(v.id, v.state) for v in mirror.waiting] == [(2, "preempted"), (3, "waiting")]
    scheduler.finish(next(iter(scheduler.waiting)), "aborted")
    scheduler.log.emit(
        ev.RequestFinished,
        request=2,
        session="s2",
        reason="aborted",
        prompt_tokens=11,
        output_tokens=0,
        cached=0,
        copied=0,
        computed=0,
        ttft_s=None,
        decode_s=0.0,
    )
    assert [v.id for v in mirror.waiting] == [3]
    assert mirror.copy().waiting[0].id == 3


def test_many_wait_and_the_first_128_are_told() -> None:
    scheduler, events, mirror = listening(policy="lpm", max_running=1)
    for id in range(1, 202):
        scheduler.add(request(id, 8, first=10 * id, max_tokens=2))
    scheduler.plan()
    told = orders(events)[-1]
    assert (told.policy, len(told.order), told.order[0]) == ("fcfs", 128, (2, None, 0))
    assert [v.id for v in mirror.waiting] == list(range(2, 202))
