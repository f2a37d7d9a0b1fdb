"""What is said about a request: for the event log, and for whoever asked."""

from __future__ import annotations

from collections.abc import Iterable

from chatkv.engine.generation import Generation
from chatkv.engine.messages import ContextNear, Finished
from chatkv.engine.outbox import Outbox
from chatkv.kvcache.events import EventLog
from chatkv.scheduler import events as ev

NEAR = 0.8
"""The part of the context from which a request is said to be near its end."""


class Reports:
    """Writes into ``log`` and ``outbox``; ``limit``: the most tokens a context may have."""

    def __init__(self, log: EventLog, outbox: Outbox, limit: int) -> None:
        self._log, self._outbox, self._limit = log, outbox, limit

    def watch_context(self, generation: Generation) -> None:
        """Say so, once, where ``generation`` has used most of the context."""
        request = generation.request
        if not generation.told_near and request.num_tokens >= NEAR * self._limit:
            generation.told_near = True
            self._outbox.near.append(
                ContextNear(request.id, request.session, request.num_tokens, self._limit)
            )

    def finished(self, generation: Generation, kept: tuple[int, ...], reason: str, message: str) -> None:
        """``generation`` is over; its history is to hold the ids ``kept``."""
        request = generation.request
        computed, ttft, decode_s = max(request.computed - request.cached, 0), None, 0.0
        if generation.first is not None:
            computed = request.prompt_tokens - request.cached
            ttft = generation.first - generation.queued
            decode_s = generation.last - generation.first
        self._log.emit(
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
        self._outbox.finished.append(
            Finished(
                request.id,
                request.session,
                reason,
                message,
                generation.text,
                kept,
                request.prompt_tokens,
                request.cached,
                request.copied,
                computed,
                ttft,
                decode_s,
                thinking=generation.thinking,
                logprobs=generation.logprobs,
                context_used=request.num_tokens,
                context_limit=self._limit,
            )
        )

    def turned_down(
        self, ids: Iterable[int], session: str, reason: str, message: str, prompt_tokens: int = 0
    ) -> None:
        """The requests ``ids`` never ran: they are refused, faulty, or were stopped before they began."""
        for id in ids:
            self._log.emit(
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
            self._outbox.finished.append(
                Finished(id, session, reason, message, "", (), prompt_tokens, 0, 0, 0, None, 0.0)
            )
