"""Requests as people see them, and the totals over all of them, folded from the same records."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from chatkv.kvcache.events import PromptAccounted

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
    accounting: PromptAccounted | None = None
    preemptions: int = 0

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
    """= first_seen + evicted + diverged + rounding + last_token + other_namespace."""
    first_seen: int = 0
    evicted: int = 0
    diverged: int = 0
    rounding: int = 0
    last_token: int = 0
    other_namespace: int = 0
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


class RequestBook:
    """Owns the views and the totals; the mirror tells it what happened."""

    def __init__(self) -> None:
        self.views: dict[int, RequestView] = {}
        self.totals = Totals()
        self._over: deque[int] = deque()
        self._sampling: tuple[int, ...] = ()

    def get(self, request: int, session: str = "", state: str = WAITING) -> RequestView:
        """The request's view; made where it was not known."""
        view = self.views.get(request)
        if view is None:
            view = self.views[request] = RequestView(request, session, state)
        return view

    def account(self, event: PromptAccounted) -> None:
        """A first attempt's prompt is accounted for."""
        view = self.get(event.request)
        if view.accounting is not None:
            return
        view.accounting = event
        totals = self.totals
        totals.prompt_tokens += event.prompt_tokens
        totals.computed += event.prompt_tokens - event.hit - event.copied
        for part in (
            "hit",
            "copied",
            "first_seen",
            "evicted",
            "diverged",
            "rounding",
            "last_token",
            "other_namespace",
        ):
            setattr(totals, part, getattr(totals, part) + getattr(event, part))

    def will_sample(self, requests: tuple[int, ...]) -> None:
        """The planned step gives each of these a token."""
        self._sampling = requests

    def step_done(self) -> None:
        """The planned step is over."""
        self.totals.steps += 1
        for request in self._sampling:
            view = self.views.get(request)
            if view is not None and not view.over:
                self.set_output(view, view.output_tokens + 1)
        self._sampling = ()

    def set_output(self, view: RequestView, tokens: int) -> None:
        """The request has ``tokens`` of output so far."""
        self.totals.output_tokens += tokens - view.output_tokens
        view.output_tokens = tokens

    def end(self, view: RequestView, state: str, reason: str) -> None:
        """The request is over; the oldest of those that are over are forgotten."""
        view.reason = reason
        if view.over:
            return
        view.state = state
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
        twin._over, twin._sampling = self._over.copy(), self._sampling
        return twin
