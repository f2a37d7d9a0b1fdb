"""Requests as people see them, and the totals over all of them, folded from the same records."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from chatkv.insight.nodes import Row
from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched

FINISHED_KEPT = 256

WAITING, RUNNING, PREEMPTED, FINISHED, REFUSED = "waiting", "running", "preempted", "finished", "refused"


@dataclass(slots=True, eq=False)
class RequestView:
    """One request. ``state``: ``waiting``, ``running``, ``preempted``, ``finished`` or ``refused``."""

    id: int
    session: str
    state: str
    prompt_tokens: int = 0
    cached: int = 0
    """Prompt tokens that needed no prefill at the first attempt; ``copied`` of them by copied slots."""
    copied: int = 0
    prefilled: int = 0
    """Tokens given to prefill since it was last admitted."""
    output_tokens: int = 0
    ttft_s: float | None = None
    decode_s: float | None = None
    reason: str = ""
    """Why it is over or was preempted."""
    accounting: kv.PromptAccounted | None = None
    preemptions: int = 0
    place: int | None = None
    """In the queue, 0 for the next one, as last told; None while it does not wait or was not told yet."""
    matched: int | None = None
    """While it waits: tokens of it that are cached; None where nobody looked."""
    overtaken: int = 0
    """How often one that arrived later was admitted while it waited."""

    @property
    def waits(self) -> bool:
        """Waiting for its turn, for the first time or again."""
        return self.state in (WAITING, PREEMPTED)

    @property
    def over(self) -> bool:
        """Finished or refused: nothing more will happen to it."""
        return self.state in (FINISHED, REFUSED)


@dataclass(slots=True)
class Totals:
    """Sums since the cache was created. Prompt figures count first attempts only (no resumed requests)."""

    prompt_tokens: int = 0
    hit: int = 0
    copied: int = 0
    computed: int = 0
    """= prompt_tokens - hit - copied. The next six say why, where the cache accounts for it."""
    first_seen: int = 0
    evicted: int = 0
    diverged: int = 0
    rounding: int = 0
    last_token: int = 0
    other_namespace: int = 0
    bypassed: int = 0
    output_tokens: int = 0
    evictions: int = 0
    """Nodes (or ends of nodes) that had to go for room."""
    evicted_blocks: int = 0
    superseded: int = 0
    """Tails that went because a fuller block holds their tokens: nothing was lost."""
    finished: int = 0
    refused: int = 0
    preempted: int = 0
    steps: int = 0

    @property
    def hit_rate(self) -> float:
        """(hit + copied) / prompt tokens, 0 where nothing was asked yet."""
        return (self.hit + self.copied) / self.prompt_tokens if self.prompt_tokens else 0.0


CAUSES = ("first_seen", "evicted", "diverged", "rounding", "last_token", "other_namespace", "bypassed")
"""Why prompt tokens are computed: fields of ``PromptAccounted`` that are summed in ``Totals``."""


class RequestBook:
    """Owns the views and the totals; each method folds the record it is named after."""

    def __init__(self) -> None:
        self.views: dict[int, RequestView] = {}
        self.totals = Totals()
        self._over: deque[int] = deque()
        self._sampling: tuple[int, ...] = ()
        self.policy = ""
        """The queue policy in force, as last told; empty before."""

    @property
    def waiting(self) -> list[RequestView]:
        """Who waits, in the order of their turns; those who came since it was last told at the end."""
        late = len(self.views)
        waiting = [view for view in self.views.values() if view.waits]
        return sorted(waiting, key=lambda v: (late if v.place is None else v.place, v.id))

    def get(self, request: int, session: str = "", state: str = WAITING) -> RequestView:
        """The request's view; made where it was not known."""
        view = self.views.get(request)
        if view is None:
            view = self.views[request] = RequestView(request, session, state)
        return view

    def queued(self, event: sched.RequestQueued) -> None:
        """It waits."""
        self.get(event.request, event.session).prompt_tokens = event.prompt_tokens

    def refused(self, event: sched.RequestRefused) -> None:
        """It can never run."""
        self._end(self.get(event.request, event.session), REFUSED, event.reason)

    def opened(self, event: kv.RequestOpened) -> None:
        """It has a row."""
        view = self.get(event.request, event.session)
        view.state, view.prefilled = RUNNING, 0
        if not event.resumed:
            view.prompt_tokens, view.cached, view.copied = event.prompt_tokens, 0, 0
            self.totals.prompt_tokens += event.prompt_tokens
            self.totals.computed += event.prompt_tokens

    def reused(self, event: kv.PrefixReused) -> None:
        """Its first attempt found a prefix."""
        self.get(event.request).cached = event.tokens
        self.totals.hit += event.tokens
        self.totals.computed -= event.tokens

    def copied(self, event: kv.SlotsCopied) -> None:
        """Its first attempt copied slots."""
        view = self.get(event.request)
        view.cached += event.tokens
        view.copied += event.tokens
        self.totals.copied += event.tokens
        self.totals.computed -= event.tokens

    def accounted(self, event: kv.PromptAccounted) -> None:
        """Its first attempt's prompt is accounted for."""
        view = self.get(event.request)
        if view.accounting is not None:
            return
        view.accounting = event
        for part in CAUSES:
            setattr(self.totals, part, getattr(self.totals, part) + getattr(event, part))

    def admitted(self, event: sched.RequestAdmitted) -> None:
        """It runs."""
        view = self.get(event.request)
        view.state, view.prefilled, view.reason = RUNNING, 0, ""
        view.place, view.matched, view.overtaken = None, None, event.overtaken
        if not view.preemptions:
            view.cached, view.copied = event.cached, event.copied

    def ordered(self, event: sched.QueueOrdered) -> None:
        """The order of turns is known anew."""
        self.policy = event.policy
        for view in self.views.values():
            view.place = view.matched = None
        for place, (request, matched, overtaken) in enumerate(event.order):
            view = self.get(request)
            view.place, view.matched, view.overtaken = place, matched, overtaken

    def preempted(self, event: sched.RequestPreempted) -> None:
        """It waits again."""
        view = self.get(event.request)
        view.state, view.reason = PREEMPTED, event.reason
        view.preemptions += 1
        self.totals.preempted += 1

    def planned(self, event: sched.StepPlanned, rows: Mapping[int, Row]) -> None:
        """A step is about to run: who will get a token by it."""
        sampling = list(event.decode)
        for request, tokens in event.prefill:
            self.get(request).prefilled += tokens
            row = rows.get(request)
            if row is not None and row.written + tokens >= row.prompt_tokens:
                sampling.append(request)
        self._sampling = tuple(sampling)

    def step_done(self, event: sched.StepDone) -> None:
        """The step is over: those that run on have one token more."""
        self.totals.steps += 1
        for request in self._sampling:
            view = self.views.get(request)
            if view is not None and not view.over:
                self._set_output(view, view.output_tokens + 1)
        self._sampling = ()

    def first_token(self, event: sched.FirstToken) -> None:
        """Its first token exists."""
        self.get(event.request).ttft_s = event.ttft_s

    def closed(self, event: kv.RequestClosed) -> None:
        """Its row is gone."""
        view = self.get(event.request)
        if event.reason != "preempted":
            self._end(view, FINISHED, event.reason)
        elif not view.over:
            view.state = PREEMPTED

    def finished(self, event: sched.RequestFinished) -> None:
        """It is over; these are the final figures."""
        view = self.get(event.request, event.session)
        if view.state != REFUSED:  # then its reason says more
            self._end(view, FINISHED, event.reason)
        self._set_output(view, event.output_tokens)
        view.prompt_tokens, view.cached, view.copied = event.prompt_tokens, event.cached, event.copied
        view.ttft_s, view.decode_s = event.ttft_s, event.decode_s

    def _set_output(self, view: RequestView, tokens: int) -> None:
        self.totals.output_tokens += tokens - view.output_tokens
        view.output_tokens = tokens

    def _end(self, view: RequestView, state: str, reason: str) -> None:
        view.reason = reason
        if view.over:
            return
        view.state, view.place, view.matched = state, None, None
        if state == REFUSED:
            self.totals.refused += 1
        else:
            self.totals.finished += 1
        self._over.append(view.id)
        while len(self._over) > FINISHED_KEPT:
            self.views.pop(self._over.popleft(), None)

    def copy(self) -> RequestBook:
        """An independent copy."""
        twin = RequestBook()
        twin.views = {request: replace(view) for request, view in self.views.items()}
        twin.totals = replace(self.totals)
        twin._over, twin._sampling, twin.policy = self._over.copy(), self._sampling, self.policy
        return twin
