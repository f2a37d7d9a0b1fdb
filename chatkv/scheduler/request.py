"""A request as the scheduler sees it: token ids, progress, and where it is in its life.

waiting ──admit──▶ running ──finish──▶ finished
   ▲                  │
   └────preempt───────┘            (refused and aborted requests go straight to finished)
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.results import Lookup
from chatkv.kvcache.table import IntBuffer


class State(Enum):
    """Where a request is."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


class Request:
    """``prompt``: int32 [n], n ≥ 1. Ids grow in order of arrival."""

    __slots__ = (
        "arrived",
        "buffer",
        "cached",
        "computed",
        "copied",
        "id",
        "lookup",
        "max_tokens",
        "namespace",
        "overtaken",
        "preemptions",
        "priority",
        "prompt_tokens",
        "session",
        "state",
        "unit",
    )

    def __init__(
        self,
        id: int,
        session: str,
        prompt: Int32Array,
        *,
        max_tokens: int,
        namespace: str = "",
        priority: int = 0,
        unit: int = 1,
    ) -> None:
        self.id = id
        self.session = session
        self.namespace = namespace
        self.max_tokens = max_tokens
        self.priority = priority
        """Larger: it is admitted before those with less, and what it leaves in the cache stays longer."""
        self.unit = unit
        """Tokens that each of its ids stands for: more than 1 in a trace of hashed blocks."""
        self.buffer = IntBuffer(2 * len(prompt))
        self.buffer.extend(prompt)
        self.prompt_tokens = len(prompt)
        self.lookup = Lookup()
        """What the cache found of ``tokens``."""
        self.state = State.WAITING
        self.computed = 0
        """Tokens whose KV exists in the request's row."""
        self.cached = 0
        """Prompt tokens found in the cache at first admission (a rematch after preemption is no reuse)."""
        self.copied = 0
        """The part of ``cached`` that came by copied slots."""
        self.preemptions = 0
        self.arrived = 0
        """The engine's clock when it came: tokens computed until then, by anyone."""
        self.overtaken = 0
        """How often one that arrived later was admitted while this one waited."""

    @property
    def tokens(self) -> Int32Array:
        """Prompt and sampled tokens, int32; a view that is good until the next ``push``."""
        return self.buffer.array

    @property
    def num_tokens(self) -> int:
        """Prompt and sampled tokens."""
        return self.buffer.size

    @property
    def output_tokens(self) -> int:
        """Sampled tokens."""
        return self.buffer.size - self.prompt_tokens

    @property
    def todo(self) -> int:
        """Tokens that must be computed before the next one can be sampled (1 while decoding)."""
        return self.buffer.size - self.computed

    def push(self, token: int) -> None:
        """A token was sampled; its KV does not exist yet."""
        self.buffer.extend(np.array([token], dtype=np.int32))

    def __repr__(self) -> str:
        return f"Request({self.id}, {self.state.value}, {self.computed}/{self.num_tokens} tokens)"
