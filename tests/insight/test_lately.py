"""The newest prompts, waits, speeds and evictions."""

from __future__ import annotations

from chatkv.insight.lately import KEPT, PROMPTS, Lately
from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched
from tests.insight.streams import Stream


def accounted(stream: Stream, request: int, asked: int, hit: int, copied: int = 0) -> None:
    stream.emit(
        kv.PromptAccounted,
        request=request,
        prompt_tokens=asked,
        hit=hit,
        copied=copied,
        first_seen=asked - hit - copied - 1,
        evicted=0,
        diverged=0,
        rounding=0,
        last_token=1,
        other_namespace=0,
    )


def stepped(stream: Stream, prefill: int, decode: int, seconds: float) -> None:
    stream.emit(
        sched.StepPlanned,
        step=1,
        prefill=((1, prefill),) if prefill else (),
        decode=tuple(range(decode)),
        waiting=0,
        running=1,
    )
    stream.emit(sched.StepDone, step=1, step_s=seconds, forward_s=seconds)


def test_the_rolling_rate_forgets_old_prompts(stream: Stream) -> None:
    assert stream.mirror.lately.hit_rate == 0
    accounted(stream, 1, 100, 0)
    assert stream.mirror.lately.hit_rate == 0
    for request in range(2, PROMPTS + 1):
        accounted(stream, request, 100, 40, 10)
    assert stream.mirror.lately.hit_rate == 50 * (PROMPTS - 1) / (100 * PROMPTS)
    accounted(stream, 99, 100, 50)
    assert stream.mirror.lately.hit_rate == 0.5


def test_speeds_are_taken_apart_over_a_quarter_second_of_steps(stream: Stream) -> None:
    lately = stream.mirror.lately
    stepped(stream, 100, 0, 0.125)
    stepped(stream, 0, 2, 0.125)
    assert (list(lately.prefill.values), list(lately.decode.values)) == ([], [])
    stepped(stream, 300, 4, 0.125)
    assert (list(lately.prefill.values), list(lately.decode.values)) == ([1600.0], [24.0])
    stepped(stream, 0, 0, 5.0)
    assert (len(lately.prefill.values), len(lately.decode.values)) == (1, 1)


def test_evictions_count_for_a_minute() -> None:
    lately = Lately()
    gone = {
        "tokens": 2,
        "blocks": [0],
        "strategy": "lru",
        "leaves": 1,
        "rank": 1,
        "age": 1,
        "request": None,
    }
    made = Stream()
    for reason in ("room", "superseded", "room"):
        made.emit(kv.NodeEvicted, node=1, reason=reason, **gone)
    first, other, third = made.events[-3:]
    for event in (first, other, third):
        lately.add(event, 100.0)
    lately.add(first, 130.0)
    lately.add(first, None)
    assert [lately.evictions(now) for now in (130.0, 159.9, 160.0, 189.9, 190.0)] == [3, 3, 1, 1, 0]


def test_a_copy_stays_as_it_is(stream: Stream) -> None:
    accounted(stream, 1, 10, 4)
    stepped(stream, 100, 0, 0.125)
    stream.emit(sched.FirstToken, request=1, ttft_s=0.1)
    twin = stream.mirror.copy()
    accounted(stream, 2, 10, 8)
    stepped(stream, 100, 0, 0.125)
    stream.emit(sched.FirstToken, request=2, ttft_s=0.2)
    assert (twin.lately.hit_rate, list(twin.lately.ttfts)) == (0.4, [0.1])
    assert not twin.lately.prefill.values
    assert list(stream.mirror.lately.prefill.values) == [800.0]


def test_a_new_cache_starts_over_and_nothing_grows_without_end(stream: Stream) -> None:
    for request in range(2 * KEPT):
        accounted(stream, request, 10, 4)
        stream.emit(sched.FirstToken, request=request, ttft_s=0.1)
    assert (len(stream.mirror.lately.prompts), len(stream.mirror.lately.ttfts)) == (KEPT, KEPT)
    created = stream.events[0]
    stream.mirror.apply(created)
    assert not stream.mirror.lately.prompts
