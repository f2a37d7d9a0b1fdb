"""What goes into the engine's thread and what comes out of it: plain frozen records, no torch.

In: ``GenerateRequest`` through ``Engine.submit`` (see ``engine/thread.py``). Out: one of the
``EngineMessage`` records, handed to a listener *on the engine's thread*; the listener must return
at once (a TUI posts a Textual message; it never touches widgets there).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from chatkv.engine.stats import EngineStats
from chatkv.kvcache.events import Event
from chatkv.sampling import SamplingParams as Sampling

__all__ = [
    "MAX_ANSWERS",
    "Batch",
    "Candidate",
    "ContextNear",
    "Delta",
    "Differing",
    "EngineMessage",
    "EngineStats",
    "Failed",
    "Finished",
    "GenerateRequest",
    "Loading",
    "Measured",
    "Prompt",
    "Ready",
    "Role",
    "Sampling",
    "TokenLogprob",
    "Turn",
    "Verified",
    "unverified",
]

Role = Literal["system", "user", "assistant"]

MAX_ANSWERS = 16
"""The most answers one ``GenerateRequest`` may ask for."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation.

    ``token_ids``: for an answer of the model, the ids it sampled (without KV-less end token is fine):
    they, not the text encoded again, go into the next prompt, so that its prefix matches. Hand back
    ``Finished.token_ids`` whole, thinking and all: where the model's template drops the thinking of
    earlier answers, the engine does, and ``text`` is the answer without it (``Finished.text``).

    ``thinking``: what was thought before an answer without ids (imported, or another model's). It is
    treated as the model's own, and left out where the model does not think.
    """

    role: Role
    text: str
    token_ids: tuple[int, ...] | None = None
    thinking: str = ""


Prompt = tuple[Turn, ...] | tuple[int, ...] | str
"""A conversation (the chat template makes its prompt), token ids as they are, or a plain text to go on
with (BOS in front where the tokenizer adds one; control tokens that it spells are text)."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """Ask for the next answer to a conversation (its last turn is the user's), or for what follows a prompt.

    Only a conversation's answer is split into thinking and text.

    ``n`` answers are n requests over one prompt, whose blocks they share: ``Engine.submit`` returns the
    first one's id, the others have the ids that follow it. Each has its own deltas and its own
    ``Finished``, can be stopped alone, and draws with its own seed (``seed``, ``seed + 1`` …). An ``n``
    that is not 1 … ``MAX_ANSWERS`` ends that one id with ``error``.
    """

    session: str
    prompt: Prompt
    sampling: Sampling = field(default_factory=Sampling)
    namespace: str = ""
    """Requests of different namespaces never share blocks."""
    n: int = 1

    @property
    def answers(self) -> int:
        """How many ids it takes."""
        return self.n if 1 <= self.n <= MAX_ANSWERS else 1


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
    """``native/cpu``, ``torch/cpu``, ``flashinfer/cuda:0`` …"""
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
    notes: tuple[str, ...] = ()
    """What this machine could not have, what was assumed of the model or is not computed: one line each."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine could not start, or its loop died. ``message`` is one line that says what to do."""

    message: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that might have been chosen. ``text`` is for the eye (control tokens by their name)."""

    token_id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Of one sampled token: what the model gave it, before penalties, temperature and filters.

    ``logprob`` is natural; ``rank`` 1 is the likeliest. ``top``: the likeliest ones, in order.
    """

    token_id: int
    text: str
    logprob: float
    rank: int
    top: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """New text of a running request. ``text`` never ends in half a character; it may be empty.

    Text that may turn out to be the start of a stop string is held back. ``thinking`` is what the
    model thinks before it answers; one delta may carry its end and the beginning of the answer.
    """

    request: int
    session: str
    text: str
    token_ids: tuple[int, ...]
    thinking: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    """Where asked for, one for each of ``token_ids``."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A request is over; no more deltas follow.

    ``reason`` as in ``scheduler.events.RequestFinished``, or ``refused``. ``message``: for
    ``refused``, ``error``, ``context`` and ``cache full``, one line for the person; else empty.
    ``text`` and ``thinking`` are the deltas' joined. ``token_ids`` are the sampled ids, thinking and end
    token included; where a stop string ended the answer, those before it, so that they spell ``text``
    (a token that it cut is replaced by the ids of its part before the cut).
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
    thinking: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    """Where asked for, one for each sampled token, also those that a stop string cut off."""
    context_used: int = 0
    """Tokens of prompt and answer; ``context_limit`` is the most there may be."""
    context_limit: int = 0


@dataclass(frozen=True, slots=True)
class ContextNear:
    """A request has used most of the context (``NEAR`` in ``engine/reports.py``): told once a request."""

    request: int
    session: str
    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class Differing:
    """The first place where greedy choice differs: ``position`` counts the answer's tokens from 0.

    ``margin``: by how much the cold run prefers its own token, in logits (near 0: a tie that rounding
    decides).
    """

    position: int
    cached_id: int
    cached_text: str
    cold_id: int
    cold_text: str
    margin: float


@dataclass(frozen=True, slots=True)
class Verified:
    """A finished request computed again without the cache, and compared (``Engine.verify``).

    For each of ``positions`` tokens of the answer, the logits over the KV that the cache holds now
    (``reused`` tokens of it) are compared with those of a cold run of prompt and answer. ``message``
    says in one line what came out, or why nothing could be compared (``positions`` 0).
    """

    request: int
    session: str
    positions: int
    reused: int
    max_difference: float
    """The largest absolute difference of any logit, ``max_position`` the answer's token it was for."""
    max_position: int
    differing: Differing | None
    """None: the same greedy token everywhere."""
    seconds: float
    message: str


def unverified(request: int, session: str, why: str) -> Verified:
    """Nothing could be compared."""
    return Verified(request, session, 0, 0, 0.0, 0, None, 0.0, f"request {request} can't be verified: {why}")


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that happened in one engine step (or between steps), in order.

    ``wall_s`` (``time.time()``) is a label. Events of consecutive batches have consecutive ``seq``.
    """

    wall_s: float
    events: tuple[Event, ...] = ()
    deltas: tuple[Delta, ...] = ()
    finished: tuple[Finished, ...] = ()
    near: tuple[ContextNear, ...] = ()
    verified: tuple[Verified, ...] = ()
    stats: EngineStats | None = None
    """The engine's figures, a few times a second while something happens; None: as they were."""
    notes: tuple[str, ...] = ()
    """What can't be had any more, and what is taken instead of it: one line each, as ``Ready.notes``."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a prompt would cost now (``Engine.measure``); ``ticket`` is the asker's own.

    ``reused`` of its ``prompt_tokens`` are in the cache. ``problem``: one line where it can't be told,
    else empty.
    """

    ticket: int
    prompt_tokens: int
    reused: int
    problem: str = ""


EngineMessage = Loading | Ready | Failed | Batch | Measured
