"""Requests and totals, folded from the scheduler's records."""

from __future__ import annotations

from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched
from tests.insight.streams import Stream


def account(stream: Stream, request: int, prompt: int, hit: int, copied: int) -> None:
    stream.emit(
        kv.PromptAccounted,
        request=request,
        prompt_tokens=prompt,
        hit=hit,
        copied=copied,
        first_seen=prompt - hit - copied - 1,
        evicted=0,
        diverged=0,
        rounding=0,
        last_token=1,
        other_namespace=0,
    )


def plan(
    stream: Stream, step: int, prefill: tuple[tuple[int, int], ...] = (), decode: tuple[int, ...] = ()
) -> None:
    stream.emit(sched.StepPlanned, step=step, prefill=prefill, decode=decode, waiting=0, running=1)


def done(stream: Stream, step: int) -> None:
    stream.emit(sched.StepDone, step=step, step_s=0.1, forward_s=0.05)


def test_a_request_from_the_queue_to_its_end(stream: Stream) -> None:
    mirror = stream.mirror
    stream.emit(sched.RequestQueued, request=1, session="a", prompt_tokens=6, max_tokens=9)
    assert mirror.requests[1].state == "waiting"
    stream.whole_request(9, 1, [1, 2], [7])
    stream.open(1, prompt=6)
    stream.emit(kv.PrefixReused, request=1, path=(1,), blocks=[7], tokens=2)
    stream.allocate(1, 0, 1)
    stream.emit(kv.SlotsCopied, request=1, node=None, source=7, target=0, tokens=1)
    account(stream, 1, 6, 2, 1)
    stream.emit(sched.RequestAdmitted, request=1, cached=3, copied=1, waiting=0)
    view = mirror.requests[1]
    assert (view.state, view.cached, view.copied) == ("running", 3, 1)
    assert mirror.rows[1].written == 3
    plan(stream, 1, prefill=((1, 2),))
    stream.write(1, 2)
    done(stream, 1)
    assert (view.prefilled, view.output_tokens) == (2, 0), "one prompt token is still to come"
    plan(stream, 2, prefill=((1, 1),))
    stream.write(1, 1)
    stream.emit(sched.FirstToken, request=1, ttft_s=0.25)
    done(stream, 2)
    plan(stream, 3, decode=(1,))
    stream.write(1, 1)
    done(stream, 3)
    assert (view.prefilled, view.output_tokens, view.ttft_s) == (3, 2, 0.25)
    stream.close(1)
    stream.emit(
        sched.RequestFinished,
        request=1,
        session="a",
        reason="stop",
        prompt_tokens=6,
        output_tokens=3,
        cached=3,
        copied=1,
        computed=3,
        ttft_s=0.25,
        decode_s=0.5,
    )
    assert (view.state, view.reason, view.output_tokens, view.decode_s) == ("finished", "stop", 3, 0.5)
    totals = mirror.totals
    assert (totals.prompt_tokens, totals.hit, totals.copied, totals.computed) == (5 + 6, 2, 1, 5 + 3)
    assert (totals.first_seen, totals.last_token) == (2, 1)
    assert (totals.output_tokens, totals.finished, totals.steps) == (3, 2, 3)
    assert totals.hit_rate == 3 / 11


def test_what_a_resumed_request_finds_is_no_hit(stream: Stream) -> None:
    mirror = stream.mirror
    stream.open(1, prompt=6)
    account(stream, 1, 6, 0, 0)
    stream.close(1, "preempted")
    stream.emit(sched.RequestPreempted, request=1, reason="the youngest goes")
    assert (mirror.requests[1].state, mirror.requests[1].reason) == ("preempted", "the youngest goes")
    stream.whole_request(2, 2, [1, 2, 3, 4, 5, 6], [3, 4, 5])
    stream.open(1, prompt=8, resumed=True)
    stream.emit(kv.PrefixReused, request=1, path=(2,), blocks=[3, 4, 5], tokens=6)
    account(stream, 1, 8, 7, 0)
    stream.emit(sched.RequestAdmitted, request=1, cached=6, copied=0, waiting=0)
    view = mirror.requests[1]
    assert (view.state, view.reason, view.cached, view.prompt_tokens) == ("running", "", 0, 6)
    assert view.accounting is not None
    assert view.accounting.prompt_tokens == 6
    assert (mirror.totals.prompt_tokens, mirror.totals.hit, mirror.totals.preempted) == (6 + 5, 0, 1)


def finish(stream: Stream, reason: str) -> None:
    stream.emit(
        sched.RequestFinished,
        request=1,
        session="a",
        reason=reason,
        prompt_tokens=400,
        output_tokens=0,
        cached=0,
        copied=0,
        computed=0,
        ttft_s=None,
        decode_s=0.0,
    )


def test_a_refused_request_keeps_its_reason(stream: Stream) -> None:
    stream.emit(sched.RequestRefused, request=1, session="a", reason="400 tokens, 100 fit")
    finish(stream, "refused")
    view = stream.mirror.requests[1]
    assert (view.state, view.reason, view.prompt_tokens) == ("refused", "400 tokens, 100 fit", 400)
    assert (stream.mirror.totals.refused, stream.mirror.totals.finished) == (1, 0)


def test_what_an_error_takes_out_of_the_cache_was_not_preempted(stream: Stream) -> None:
    stream.open(1)
    stream.close(1, "preempted")
    finish(stream, "error")
    view = stream.mirror.requests[1]
    assert (view.state, view.reason, view.preemptions) == ("finished", "error", 0)
    assert stream.mirror.totals.preempted == 0


def test_refused_requests_and_how_many_are_remembered(stream: Stream) -> None:
    mirror = stream.mirror
    for request in range(300):
        stream.emit(sched.RequestRefused, request=request, session="a", reason="400 tokens, 100 fit")
    assert mirror.totals.refused == 300
    assert list(mirror.requests) == list(range(300 - 256, 300))
    assert mirror.requests[299].state == "refused"
    assert mirror.requests[299].over
