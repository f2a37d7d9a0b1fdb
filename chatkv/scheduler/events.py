"""What the scheduler and the engine loop decided, as records on the same logical clock as the cache's.

Fields named ``*_s`` are wall-clock labels in seconds: for people to read, never an input to a fold.
"""

from __future__ import annotations

from dataclasses import dataclass

from chatkv.kvcache.events import Event


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RequestQueued(Event):
    """A request waits. ``prompt_tokens`` is its whole prompt, ``max_tokens`` its output limit."""

    request: int
    session: str
    prompt_tokens: int
    max_tokens: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RequestRefused(Event):
    """A request that can never run. ``reason`` is one line with the numbers and what to do."""

    request: int
    session: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RequestAdmitted(Event):
    """Waiting → running. ``cached`` tokens need no prefill, ``copied`` of them by copied slots."""

    request: int
    cached: int
    copied: int
    waiting: int
    """How many are still waiting behind it."""
    overtaken: int = 0
    """How often one that arrived later was admitted while it waited."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class QueueOrdered(Event):
    """Whose turn it is among those who wait, told when it changed.

    ``order``: (request, matched, overtaken), first the next one, at most 128. ``matched`` tokens of it
    are cached now (None: the policy did not look). ``overtaken``: how often one that arrived later was
    admitted before it. ``policy`` is the one in force: ``fcfs`` where too many wait to match them.
    """

    policy: str
    order: tuple[tuple[int, int | None, int], ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RequestPreempted(Event):
    """Running → waiting: the pool was full; its blocks are freed, its tokens kept.

    ``reason`` names the victim rule.
    """

    request: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PinRefused(Event):
    """A person's pin on ``node`` could not be set; nothing changed. ``reason`` is one line with the bound."""

    node: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StepPlanned(Event):
    """One forward: ``prefill`` = (request, tokens) pairs, ``decode`` = requests with one token each."""

    step: int
    prefill: tuple[tuple[int, int], ...]
    decode: tuple[int, ...]
    waiting: int
    running: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StepDone(Event):
    """The forward of ``step`` is over; wall time of the whole step and of the model's part."""

    step: int
    step_s: float
    forward_s: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FirstToken(Event):
    """The first token of a request exists; ``ttft_s`` since it was queued."""

    request: int
    ttft_s: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RequestFinished(Event):
    """A request is over.

    ``reason``: ``stop`` (the model ended), ``length`` (max tokens), ``context`` (context is full),
    ``cache full`` (the pool is), ``aborted`` (a person stopped it), ``error``.
    ``cached`` + ``computed`` = ``prompt_tokens`` once an answer began; ``copied`` is part of ``cached``.
    """

    request: int
    session: str
    reason: str
    prompt_tokens: int
    output_tokens: int
    cached: int
    copied: int
    computed: int
    ttft_s: float | None
    """None where no token was sampled."""
    decode_s: float
    """From the first token to the last."""
