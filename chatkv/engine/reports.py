"""The last word on a request: for the event log, and for whoever asked."""

from __future__ import annotations

from chatkv.engine.generation import Generation
from chatkv.engine.messages import Finished
from chatkv.engine.outbox import Outbox
from chatkv.kvcache.events import EventLog
from chatkv.scheduler import events as ev


def report(
    log: EventLog, outbox: Outbox, generation: Generation, reason: str, message: str, limit: int
) -> None:
    """``generation`` is over. ``limit``: the most tokens a context may have."""
    request = generation.request
    computed, ttft, decode_s = max(request.computed - request.cached, 0), None, 0.0
    if generation.first is not None:
        computed = request.prompt_tokens - request.cached
        ttft = generation.first - generation.queued
        decode_s = generation.last - generation.first
    log.emit(
        ev.RequestFinished,
        request=request.id,
        session=request.session,
        reason=reason,
        output_tokens=request.output_tokens,
        ttft_s=ttft,
        decode_s=decode_s,
        prompt_tokens=request.prompt_tokens,
        cached=request.cached,
        copied=request.copied,
        computed=computed,
    )
    outbox.finished.append(
        Finished(
            request.id,
            request.session,
            reason,
            message,
            generation.text,
            generation.kept_ids,
            request.prompt_tokens,
            request.cached,
            request.copied,
            computed,
            ttft,
            decode_s,
            thinking=generation.thinking,
            logprobs=generation.logprobs,
            context_used=request.num_tokens,
            context_limit=limit,
        )
    )


def turn_down(
    log: EventLog, outbox: Outbox, id: int, session: str, reason: str, message: str, prompt_tokens: int = 0
) -> None:
    """Request ``id`` never ran: it is refused, faulty, or was stopped before it began."""
    log.emit(
        ev.RequestFinished,
        request=id,
        session=session,
        reason=reason,
        output_tokens=0,
        ttft_s=None,
        decode_s=0.0,
        prompt_tokens=prompt_tokens,
        cached=0,
        copied=0,
        computed=0,
    )
    outbox.finished.append(Finished(id, session, reason, message, "", (), prompt_tokens, 0, 0, 0, None, 0.0))
