"""What goes into the engine's thread and what comes out of it: plain frozen records, no torch.

In: ``GenerateRequest`` through ``Engine.submit`` (see ``engine/thread.py``). Out: one of the
``EngineMessage`` records, handed to a listener *on the engine's thread*; the listener must return
at once (a TUI posts a Textual message; it never touches widgets there).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from chatkv.kvcache.events import Event

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation.

    ``token_ids``: for an answer of the model, the ids it sampled (without KV-less end token is fine):
    they, not the text encoded again, go into the next prompt, so that its prefix matches.
    """

    role: Role
    text: str
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. ``temperature`` 0 is greedy. ``seed`` None draws one."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 512
    seed: int | None = None
    ignore_stop: bool = False
    """Go on after the model's own end: for measurements, where answers must be of one length."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Ask for the next answer to ``turns`` (the last one is the user's)."""

    session: str
    turns: tuple[Turn, ...]
    sampling: Sampling = field(default_factory=Sampling)
    namespace: str = ""
    """Requests of different namespaces never share blocks."""


@dataclass(frozen=True, slots=True)
class Loading:
    """Start-up goes on: ``stage`` in words; ``fraction`` 0…1 or None where unknown."""

    stage: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine takes requests now."""

    model: str
    architecture: str
    attention: str
    """``torch/cpu``, ``flashinfer/cuda:0`` …"""
    dtype: str
    cache: str
    policy: str
    block_size: int
    num_blocks: int
    bytes_per_block: int
    """K and V of all layers."""
    max_context: int
    default_system: str | None
    """What the model's own template uses when there is no system message (None: nothing)."""
    load_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine could not start, or its loop died. ``message`` is one line that says what to do."""

    message: str


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of a running request. ``text`` never ends in half a character; it may be empty."""

    request: int
    session: str
    text: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """A request is over; no more deltas follow.

    ``reason`` as in ``scheduler.events.RequestFinished``, or ``refused``. ``message``: for
    ``refused``, ``error``, ``context`` and ``cache full``, one line for the person; else empty.
    """

    request: int
    session: str
    reason: str
    message: str
    text: str
    token_ids: tuple[int, ...]
    prompt_tokens: int
    cached: int
    copied: int
    computed: int
    ttft_s: float | None
    decode_s: float
    """From the first token to the last; tok/s = (len(token_ids) - 1) / decode_s."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that happened in one engine step (or between steps), in order.

    ``wall_s`` (``time.time()``) is a label. Events of consecutive batches have consecutive ``seq``.
    """

    wall_s: float
    events: tuple[Event, ...]
    deltas: tuple[Delta, ...]
    finished: tuple[Finished, ...]


EngineMessage = Loading | Ready | Failed | Batch
