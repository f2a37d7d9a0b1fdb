"""The step loop: plan, forward, sample, finish. Single-threaded; ``engine/thread.py`` drives it.

add ─▶ Scheduler.plan ─▶ Runner.run ─▶ Sampler.draw ─▶ Delta / Finished ─▶ Outbox
             │  ▲                            │
             ▼  └────── Request.push ◀───────┘
          KVCache ─── events ─────────────────────────────────────────────▶ Outbox
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

import numpy as np

from chatkv.engine.messages import Delta, Finished, GenerateRequest
from chatkv.engine.outbox import Outbox
from chatkv.engine.runner import Runner
from chatkv.engine.sampling import Sampler, check_sampling
from chatkv.errors import ChatkvError
from chatkv.kvcache.cache import KVCache
from chatkv.model.tokenizer import Codec, Detokenizer
from chatkv.scheduler import events as ev
from chatkv.scheduler.request import Request
from chatkv.scheduler.scheduler import Scheduler, Work

logger = logging.getLogger(__name__)


@dataclass
class Generation:
    """What the engine keeps for a request beside the scheduler's view: text, sampling, times."""

    request: Request
    sampler: Sampler
    detokenizer: Detokenizer
    queued: float
    first: float | None = None
    last: float = 0.0
    text: list[str] = field(default_factory=list)


class EngineCore:
    """Joins cache, scheduler, model and sampling. An error of one request ends that request only."""

    def __init__(
        self,
        cache: KVCache,
        scheduler: Scheduler,
        runner: Runner,
        codec: Codec,
        max_context: int,
        outbox: Outbox,
    ) -> None:
        self.cache = cache
        self.scheduler = scheduler
        self.runner = runner
        self.codec = codec
        self.max_context = max_context
        self.outbox = outbox
        self.live: dict[int, Generation] = {}
        self._clear_wanted = False

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self.scheduler.has_work

    def add(self, id: int, generate: GenerateRequest, queued: float) -> None:
        """Tokenise and queue a request; ``queued`` is ``time.perf_counter()`` when the person asked."""
        try:
            problem = check_sampling(generate.sampling)
            prompt = [] if problem else self.codec.encode_chat(generate.turns)
        except ChatkvError as error:
            problem = str(error)
        except Exception as error:
            logger.exception("request %d could not be tokenised", id)
            problem = f"this prompt could not be tokenised: {type(error).__name__}: {error}"
        if problem:
            self._report(id, generate.session, "error", problem)
            return
        request = Request(
            id,
            generate.session,
            np.array(prompt, dtype=np.int32),
            max_tokens=generate.sampling.max_tokens,
            namespace=generate.namespace,
        )
        refusal = self._too_long(request) or self.scheduler.add(request)
        if refusal:
            self._report(id, generate.session, "refused", refusal, prompt_tokens=request.prompt_tokens)
            return
        self.live[id] = Generation(
            request, Sampler(generate.sampling), self.codec.detokenizer(), queued, last=queued
        )

    def stop(self, id: int) -> None:
        """End a request in any state; what it wrote stays findable. An unknown or finished id is ignored."""
        generation = self.live.get(id)
        if generation is not None:
            self._finish(generation, "aborted")

    def clear_cache(self) -> None:
        """Forget all cached prefixes as soon as no request is open."""
        self._clear_wanted = not self.cache.clear()

    def step(self) -> None:
        """One pass: plan, forward, sample. A failing forward ends the requests that took part."""
        start = time.perf_counter()
        plan = self.scheduler.plan()
        for request in plan.exhausted:
            self._finish(
                self.live[request.id],
                "cache full",
                f"the answer fills the whole KV pool ({self.cache.num_blocks} blocks of "
                f"{self.cache.block_size} tokens): enlarge --kv-memory or --num-blocks, "
                "or start a new session",
            )
        if plan.work:
            self._forward(plan.work, start)

    # --- inside -----------------------------------------------------------------------------------

    def _forward(self, work: list[Work], start: float) -> None:
        begun = time.perf_counter()
        try:
            logits = self.runner.run(work, self.cache)
        except Exception as error:
            logger.exception("a forward of %d requests failed", len(work))
            message = f"the model's forward failed: {type(error).__name__}: {error}"
            for item in work:
                # Its slots may not hold what its row says: nothing of it may stay findable.
                self._finish(self.live[item.request.id], "error", message, keep=False)
            return
        forward_s = time.perf_counter() - begun
        row = 0
        for item in work:
            self.scheduler.computed(item)
            if item.samples:
                generation = self.live[item.request.id]
                try:
                    token = generation.sampler.draw(logits[row])
                except Exception as error:
                    logger.exception("request %d could not be sampled", item.request.id)
                    message = f"no token could be sampled: {type(error).__name__}: {error}"
                    self._finish(generation, "error", message)
                else:
                    self._take(generation, token)
                row += 1
        self.cache.log.emit(
            ev.StepDone, step=self.scheduler.steps, step_s=time.perf_counter() - start, forward_s=forward_s
        )

    def _take(self, generation: Generation, token: int) -> None:
        request = generation.request
        request.push(token)
        now = time.perf_counter()
        if generation.first is None:
            generation.first = now
            self.cache.log.emit(ev.FirstToken, request=request.id, ttft_s=now - generation.queued)
        generation.last = now
        stopped = token in self.codec.stop_ids and not generation.sampler.sampling.ignore_stop
        text = "" if stopped else generation.detokenizer.push(token)
        generation.text.append(text)
        self.outbox.deltas.append(Delta(request.id, request.session, text, (token,)))
        if stopped:
            self._finish(generation, "stop")
        elif request.output_tokens >= request.max_tokens:
            self._finish(generation, "length")
        elif request.num_tokens >= self.max_context:
            self._finish(
                generation,
                "context",
                f"the context is full ({self.max_context} tokens): "
                "fork an earlier message or start a new session",
            )

    def _finish(self, generation: Generation, reason: str, message: str = "", *, keep: bool = True) -> None:
        request = generation.request
        rest = generation.detokenizer.flush()
        if rest:
            generation.text.append(rest)
            self.outbox.deltas.append(Delta(request.id, request.session, rest, ()))
        closing = "aborted" if reason in ("aborted", "cache full") else "finished"
        self.scheduler.finish(request, closing if keep else "preempted")
        del self.live[request.id]
        if self._clear_wanted and not self.cache.rows:
            self.clear_cache()
        self._report(request.id, request.session, reason, message, generation=generation)

    def _report(
        self,
        id: int,
        session: str,
        reason: str,
        message: str,
        *,
        prompt_tokens: int = 0,
        generation: Generation | None = None,
    ) -> None:
        ttft, decode_s, text = None, 0.0, ""
        cached = copied = computed = 0
        ids: tuple[int, ...] = ()
        if generation is not None:
            request = generation.request
            prompt_tokens, cached, copied = request.prompt_tokens, request.cached, request.copied
            computed = max(request.computed - cached, 0)
            ids = tuple(request.tokens[prompt_tokens:].tolist())
            text = "".join(generation.text)
            if generation.first is not None:
                computed = prompt_tokens - cached
                ttft = generation.first - generation.queued
                decode_s = generation.last - generation.first
        numbers = {"prompt_tokens": prompt_tokens, "cached": cached, "copied": copied, "computed": computed}
        self.cache.log.emit(
            ev.RequestFinished,
            request=id,
            session=session,
            reason=reason,
            output_tokens=len(ids),
            ttft_s=ttft,
            decode_s=decode_s,
            **numbers,
        )
        self.outbox.finished.append(
            Finished(id, session, reason, message, text, ids, **numbers, ttft_s=ttft, decode_s=decode_s)
        )

    def _too_long(self, request: Request) -> str | None:
        if request.prompt_tokens < self.max_context:
            return None
        reason = (
            f"this prompt has {request.prompt_tokens} tokens, the context holds {self.max_context} with the "
            "answer: shorten it, fork an earlier message, or start a new session"
        )
        self.cache.log.emit(ev.RequestRefused, request=request.id, session=request.session, reason=reason)
        return reason
