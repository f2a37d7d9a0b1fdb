"""The step loop: plan, forward, sample, finish. Single-threaded; ``engine/thread.py`` drives it.

add ─▶ Scheduler.plan ─▶ Runner.run ─▶ Sampler.draw ─▶ Delta / Finished ─▶ Outbox
             │  ▲                            │
             ▼  └────── Request.push ◀───────┘
          KVCache ─── events ─────────────────────────────────────────────▶ Outbox
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import torch

from chatkv.engine.generation import Generation, siblings
from chatkv.engine.intake import TurnedDown, is_chat, take_in
from chatkv.engine.messages import GenerateRequest
from chatkv.engine.outbox import Outbox
from chatkv.engine.reports import Reports
from chatkv.engine.runner import Runner
from chatkv.engine.stats import Counts, EngineStats, Meter
from chatkv.engine.verifier import Verifier
from chatkv.errors import in_words
from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.errors import CacheError
from chatkv.model.tokenizer import Codec
from chatkv.scheduler import events as ev
from chatkv.scheduler.plan import Plan, Work
from chatkv.scheduler.scheduler import Scheduler

logger = logging.getLogger(__name__)


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
        *,
        verify: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``verify``: each answer, when it is over. ``clock``: when figures are told, in seconds."""
        self.cache = cache
        self.scheduler = scheduler
        self.runner = runner
        self.codec = codec
        self.max_context = max_context
        self.outbox = outbox
        self.live: dict[int, Generation] = {}
        self._waiting: dict[int, Generation] = {}
        """Siblings that have not forked yet → the generation whose prompt they wait for."""
        self._clear_wanted = False
        self._reports = Reports(cache.log, outbox, max_context)
        self._verify = verify
        self._meter = Meter(clock)
        self._verifier = Verifier(
            cache, runner, codec.piece, outbox.verified.append, scheduler.max_batch_tokens
        )

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self.scheduler.has_work or self._verifier.has_work

    @property
    def stats(self) -> EngineStats:
        """The figures of this moment."""
        return self._meter.stats(Counts.of(self.scheduler, len(self._waiting)))

    def add(self, id: int, generate: GenerateRequest, queued: float) -> None:
        """Tokenise and queue a request; ``queued`` is ``time.perf_counter()`` when the person asked.

        ``generate.n`` answers have the ids ``id`` … ``id + n - 1``.
        """
        ids = range(id, id + generate.answers)
        vocab = self.runner.decoder.config.vocab
        request = take_in(id, generate, self.codec, self.max_context, vocab)
        if isinstance(request, TurnedDown):
            if request.reason == "refused":
                self.cache.log.emit(
                    ev.RequestRefused, request=id, session=generate.session, reason=request.message
                )
            self._reports.turned_down(ids, generate.session, *request)
            return
        own = siblings(ids, generate.sampling)
        chat = is_chat(generate.prompt)
        # Before it is queued: what can't be made must not be planned.
        generation = Generation(request, generate.sampling, self.codec, queued, own, chat=chat)
        if refusal := self.scheduler.add(request):
            self._reports.turned_down(ids, generate.session, "refused", refusal, request.prompt_tokens)
        else:
            self._live(generation)

    def stop(self, id: int) -> None:
        """End a request in any state; what it wrote stays findable. An unknown or finished id is ignored."""
        generation = self.live.get(id)
        if generation is not None:
            self._finish(generation, "aborted")
        elif (asked := self._waiting.pop(id, None)) is not None:
            asked.siblings = tuple(s for s in asked.siblings if s.id != id)
            own = asked.request
            self._reports.turned_down((id,), own.session, "aborted", "", own.prompt_tokens)
        self._tell_stats()

    def verify(self, id: int) -> None:
        """Compute a finished request again and compare; ``Verified`` follows."""
        self._verifier.ask(id)

    def clear_cache(self) -> None:
        """Forget all cached prefixes as soon as no request is open."""
        self._clear_wanted = not self.cache.clear()
        self._meter.changed()

    def pin(self, node: int, pinned: bool) -> None:
        """Have a node evicted last, or no longer. Where it can't be, ``PinRefused`` says why."""
        try:
            self.cache.pin(node, pinned)
        except CacheError as error:
            self.cache.log.emit(ev.PinRefused, node=node, reason=str(error))

    def step(self) -> None:
        """One pass: plan, forward, sample. A failing forward ends the requests that took part."""
        start = time.perf_counter()
        plan = self.scheduler.plan() if self.scheduler.has_work else Plan([], [])
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
        self._tell_stats()
        if self._verifier.has_work:
            self._verifier.step(busy=self.scheduler.has_work)

    # --- inside -----------------------------------------------------------------------------------

    def _forward(self, work: list[Work], start: float) -> None:
        begun = time.perf_counter()
        try:
            rows = self.runner.run(work, self.cache, whole=self._whole(work))
        except Exception as error:
            logger.exception("a forward of %d requests failed", len(work))
            message = f"the model's forward failed: {in_words(error)}"
            for item in work:
                # Its slots may not hold what its row says: nothing of it may stay findable.
                self._finish(self.live[item.request.id], "error", message, keep=False)
            return
        forward_s = time.perf_counter() - begun
        row = 0
        decode = sum(w.request.output_tokens > 0 and w.length == 1 and w.samples for w in work)
        prefill = sum(w.length for w in work) - decode
        for item in work:
            self.scheduler.computed(item)
            if item.samples:
                generation = self.live[item.request.id]
                if generation.siblings:
                    self._fork(generation, rows[row])
                self._draw(generation, rows[row])
                row += 1
        step_s = time.perf_counter() - start
        self.cache.log.emit(ev.StepDone, step=self.scheduler.steps, step_s=step_s, forward_s=forward_s)
        self._meter.step(prefill, decode, step_s)

    def _whole(self, work: list[Work]) -> list[bool] | None:
        """Of each row, whether more of it is needed than its likeliest id; None: all is there anyway."""
        if not self.runner.picks:
            return None
        return [self.live[item.request.id].needs_logits for item in work if item.samples]

    def _live(self, generation: Generation) -> None:
        """It is queued, or runs, from now on."""
        self.live[generation.request.id] = generation
        for sibling in generation.siblings:
            self._waiting[sibling.id] = generation
        self._reports.watch_context(generation)

    def _fork(self, generation: Generation, row: torch.Tensor) -> None:
        """The prompt of ``generation`` is computed: its siblings begin with the same row."""
        for sibling in generation.siblings:
            del self._waiting[sibling.id]
            child = generation.sibling(sibling)
            copies = self.scheduler.fork(generation.request, child.request)
            if copies is None:
                # No room beside the others: it waits, and matches what the cache will have by then.
                self.scheduler.add(child.request)
                self._live(child)
                continue
            self._live(child)
            self.runner.copy(copies)
            self._draw(child, row)
        generation.siblings = ()

    def _draw(self, generation: Generation, row: torch.Tensor) -> None:
        try:
            self._take(generation, generation.draw(row))
        except Exception as error:
            logger.exception("request %d could not be sampled", generation.request.id)
            message = f"no token could be sampled: {in_words(error)}"
            if generation.request.id in self.live:
                self._finish(generation, "error", message)

    def _take(self, generation: Generation, token: int) -> None:
        request = generation.request
        request.push(token)
        now = time.perf_counter()
        if generation.first is None:
            generation.first = now
            ttft = now - generation.queued
            self.cache.log.emit(ev.FirstToken, request=request.id, ttft_s=ttft)
            self._meter.began(request.prompt_tokens, request.cached, ttft)
        else:
            self._meter.gap(now - generation.last)
        generation.last = now
        end = token in self.codec.stop_ids and not generation.sampling.ignore_stop
        self.outbox.deltas.append(generation.push(token, end))
        self._reports.watch_context(generation)
        if end or generation.stopped:
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
        try:
            rest, kept = generation.flush(), generation.kept_ids
        except Exception as error:
            logger.exception("the end of request %d could not be read", request.id)
            rest, kept = None, generation.sampled
            reason, message = "error", message or f"the end of its text can't be read: {in_words(error)}"
        if rest is not None:
            self.outbox.deltas.append(rest)
        closing = "aborted" if reason in ("aborted", "cache full") else "finished"
        self.scheduler.finish(request, closing if keep else "preempted")
        del self.live[request.id]
        if self._clear_wanted and not self.cache.rows:
            self.clear_cache()
        self._reports.finished(generation, kept, reason, message)
        self._meter.changed()
        if keep and request.output_tokens:
            self._verifier.remember(request)
            if self._verify and reason != "aborted":
                self._verifier.ask(request.id)
        if generation.siblings:
            # It ended before its prompt was computed: the next of them takes its place.
            first, *rest_of_them = generation.siblings
            del self._waiting[first.id]
            heir = generation.sibling(first, tuple(rest_of_them))
            self.scheduler.add(heir.request)
            self._live(heir)

    def _tell_stats(self) -> None:
        if self._meter.due(idle=not self.scheduler.has_work):
            self.outbox.stats = self.stats
