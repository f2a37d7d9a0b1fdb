"""Who computes what in the next step: continuous batching with chunked prefill over a paged cache.

A step has a budget of tokens. Running requests come first (each decoding one takes one token, so that
no answer stutters while others prefill), then those still in prefill, then waiting ones in the order of
the queue's policy. When the pool is full, idle cached prefixes are evicted; when nothing idle is left,
the running request that arrived last is preempted, of those with the lowest priority: its tokens are kept,
its blocks freed, and it comes back by matching again. The one that arrived first of those with the highest
is never preempted, so something always goes on.
"""

from __future__ import annotations

from bisect import insort

from chatkv.kvcache.cache import Copy, KVCache, blocks_for
from chatkv.kvcache.events import EventLog
from chatkv.scheduler import events as ev
from chatkv.scheduler.admission import Admission
from chatkv.scheduler.plan import Plan, Work, chunk, next_work
from chatkv.scheduler.request import Request, State
from chatkv.scheduler.waiting import WaitingQueue


class Scheduler:
    """Owns the queue of waiting and the list of running requests; both in order of arrival.

    ``max_batch_tokens``: the budget of a step; ``max_running``: how many requests may run at once
    (at most the budget, so that every decoding request gets its token). ``policy`` and
    ``max_overtaken``: see ``WaitingQueue``; ``admission``: see ``Admission``. Raises ValueError.
    """

    def __init__(
        self,
        cache: KVCache,
        *,
        max_batch_tokens: int = 512,
        max_running: int = 64,
        policy: str = "fcfs",
        max_overtaken: int = 0,
        admission: str = "prompt",
        log: EventLog | None = None,
    ) -> None:
        if max_batch_tokens < 1 or max_running < 1:
            raise ValueError("max_batch_tokens and max_running must be at least 1")
        self.cache = cache
        self.log = log or cache.log
        self.max_batch_tokens = max_batch_tokens
        self.max_running = min(max_running, max_batch_tokens)
        self.waiting = WaitingQueue(policy, max_overtaken)
        self.running: list[Request] = []
        self.admission = Admission(admission)
        self.steps = 0
        self.planned_tokens = 0
        """All that steps computed: the clock that waiting is measured with."""
        self._told: tuple[tuple[int, int | None, int], ...] = ()

    def add(self, request: Request) -> str | None:
        """Queue ``request``. Returns one line that says why, where it can never run, else None."""
        self.log.emit(
            ev.RequestQueued,
            request=request.id,
            session=request.session,
            prompt_tokens=request.prompt_tokens,
            max_tokens=request.max_tokens,
        )
        size, pool = self.cache.block_size, self.cache.num_blocks
        need = blocks_for(request.prompt_tokens, size)
        if need > pool:
            reason = (
                f"this prompt needs {need} blocks ({request.prompt_tokens} tokens at {size} a block), the "
                f"pool has {pool}: shorten it, start a new session, or enlarge --kv-memory or --num-blocks"
            )
            request.state = State.FINISHED
            self.log.emit(ev.RequestRefused, request=request.id, session=request.session, reason=reason)
            return reason
        if not self.has_work:
            self.admission.ratio.reset()
        request.arrived = self.planned_tokens
        self.waiting.add(request)
        return None

    def plan(self) -> Plan:
        """Decide the next step's work; rows have room for it, and copies are listed with it."""
        work: list[Work] = []
        exhausted: list[Request] = []
        budget, size = self.max_batch_tokens, self.cache.block_size
        waited = len(self.waiting)
        # Decoding first; a request may be preempted by one before it while we go through the list.
        for request in sorted(self.running, key=lambda r: r.todo > 1):
            if request.state is not State.RUNNING or request in exhausted or budget == 0:
                continue
            count = self._room(request, chunk(request, budget, size, alone=not work), exhausted)
            if count:
                work.append(next_work(request, count))
                budget -= count
        # Not in a step that preempted someone: the room was made for those who run.
        preempted = len(self.waiting) > waited
        if preempted:
            self.admission.ratio.preempted(self.running)
        elif not exhausted:
            self._admit(work, budget)
        # A request that was preempted after it was given work won't do it.
        work = [w for w in work if w.request.state is State.RUNNING]
        if self.log.listening:
            self._tell_queue()
        if work:
            self.steps += 1
            self.planned_tokens += sum(w.length for w in work)
            if not preempted:
                self.admission.ratio.step()
            self.log.emit(
                ev.StepPlanned,
                step=self.steps,
                prefill=tuple((w.request.id, w.length) for w in work if w.length > 1 or not w.samples),
                decode=tuple(w.request.id for w in work if w.length == 1 and w.samples),
                waiting=len(self.waiting),
                running=len(self.running),
            )
        return Plan(work, exhausted)

    def fork(self, parent: Request, child: Request) -> tuple[Copy, ...] | None:
        """``child`` has the prompt that ``parent`` has just computed: it runs at once on the same blocks.

        The copies are to be carried out before the next forward. None, with nothing changed, where there
        is no room, or where someone is due before it: ``add`` it instead.
        """
        if len(self.running) >= self.max_running or not self.waiting.may_pass(child):
            return None
        copies = self.cache.fork(parent.id, child.id)
        if copies is None:
            return None
        self.log.emit(
            ev.RequestQueued,
            request=child.id,
            session=child.session,
            prompt_tokens=child.prompt_tokens,
            max_tokens=child.max_tokens,
        )
        self.waiting.passed_by(child)
        insort(self.running, child, key=lambda r: r.id)
        child.arrived = parent.arrived
        child.state = State.RUNNING
        child.computed = child.cached = child.prompt_tokens
        child.copied = sum(copy.tokens for copy in copies)
        self.log.emit(
            ev.RequestAdmitted,
            request=child.id,
            cached=child.cached,
            copied=child.copied,
            waiting=len(self.waiting),
        )
        return copies

    def computed(self, work: Work) -> None:
        """The KV of ``work`` has been written."""
        request = work.request
        self.cache.commit(request.id, request.tokens[work.start : work.start + work.length])
        request.computed += work.length

    def finish(self, request: Request, reason: str) -> None:
        """Take ``request`` out in any state; its blocks and locks come back.

        ``reason`` is the cache's: ``finished`` or ``aborted``. Finishing twice does nothing.
        """
        if request.state is State.FINISHED:
            return
        if request.state is State.RUNNING:
            self.cache.close(request.id, reason)
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        request.state = State.FINISHED

    @property
    def has_work(self) -> bool:
        """Whether any request is waiting or running."""
        return bool(self.waiting or self.running)

    def _room(self, request: Request, count: int, exhausted: list[Request]) -> int:
        """Make room for up to ``count`` more tokens, preempting if needed; how many got room."""
        while not self.cache.grow(request.id, request.computed + count):
            possible = self._possible(request)
            if 0 < possible < count:  # place what fits, the rest in a later step
                count = possible
                continue
            victim = request if self._outgrown(request) else self._victim()
            if len(self.running) == 1 or self._outgrown(victim):
                if victim not in exhausted:
                    exhausted.append(victim)
                return 0
            self._preempt(victim)
            if victim is request:
                return 0
        return count

    def _victim(self) -> Request:
        """Who gives way: of the lowest priority the last to arrive. One that is due has the highest, or those
        that may not overtake it any more could keep it from ever getting done.
        """
        top = max(r.priority for r in self.running)
        return min(self.running, key=lambda r: (top if self.waiting.due(r) else r.priority, -r.id))

    def _outgrown(self, request: Request) -> bool:
        """Even alone it could not go on: only blocks that it shares with others let it come so far."""
        return request.num_tokens > self.cache.num_blocks * self.cache.block_size

    def _possible(self, request: Request) -> int:
        room = len(self.cache.row(request.id).blocks) + self.cache.room
        return room * self.cache.block_size - request.computed

    def _preempt(self, victim: Request) -> None:
        reason = "pool full: the last to arrive gives way"
        if victim is not self.running[-1]:
            reason = f"pool full: the last to arrive of priority {victim.priority} gives way"
        self.cache.close(victim.id, "preempted")
        self.running.remove(victim)
        victim.state = State.WAITING
        victim.computed = 0
        victim.preemptions += 1
        self.waiting.add(victim)
        self.log.emit(ev.RequestPreempted, request=victim.id, reason=reason)

    def _admit(self, work: list[Work], budget: int) -> None:
        """Waiting requests in their order, until one does not fit: nobody passes whose turn it is [S10]."""
        if self.waiting and (self._may_admit(work, budget) or self.log.listening):
            self.waiting.arrange(self.cache, self.planned_tokens)
        fresh: set[int] = set()
        while self._may_admit(work, budget):
            request = self.waiting.next()
            if request is None:
                return
            opened = self.cache.open(
                request.id,
                request.tokens,
                session=request.session,
                namespace=request.namespace,
                resumed=request.preemptions > 0,
                headroom=self.admission.headroom(self.cache, request, self.running, fresh),
                lookup=request.lookup,
                priority=request.priority,
            )
            if opened is None:
                return
            self.waiting.admitted(request)
            insort(self.running, request, key=lambda r: r.id)
            fresh.add(request.id)
            request.state = State.RUNNING
            request.computed = opened.cached
            if request.preemptions == 0:
                request.cached, request.copied = opened.cached, opened.copied
            self.log.emit(
                ev.RequestAdmitted,
                request=request.id,
                cached=opened.cached,
                copied=opened.copied,
                waiting=len(self.waiting),
                overtaken=request.overtaken,
            )
            count = chunk(request, budget, self.cache.block_size, alone=not work)
            if not self.cache.grow(request.id, request.computed + count):
                raise AssertionError(f"{request!r} was opened without room")
            work.append(next_work(request, count, opened.copies))
            budget -= count

    def _may_admit(self, work: list[Work], budget: int) -> bool:
        # With a block's worth of budget, or the whole step, a chunk is never empty.
        budget_left = budget >= self.cache.block_size or (budget > 0 and not work)
        return budget_left and bool(self.waiting) and len(self.running) < self.max_running

    def _tell_queue(self) -> None:
        """Say whose turn it is, if that changed since it was last said."""
        places = self.waiting.places()
        if places != self._told:
            self._told = places
            self.log.emit(ev.QueueOrdered, policy=self.waiting.in_force, order=places)
