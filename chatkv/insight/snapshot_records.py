"""The parts of a snapshot. Field for field what is in the file; ``snapshot.schema.json`` says the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Config:
    """How the cache was set up."""

    num_blocks: int
    block_size: int
    """Tokens a block holds."""
    cache: str
    """``radix``, ``hash`` or ``none``."""
    eviction: str
    """Name of the eviction strategy."""
    grain: str
    """``node`` or ``block``: what is evicted at once."""
    strict: bool
    """True: no partly filled block is ever shared."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Counts in blocks; they sum to ``config.num_blocks``."""

    free: int
    evictable: int
    protected: int


@dataclass(frozen=True, slots=True)
class Run:
    """``count`` blocks in a row that look alike."""

    state: str
    """``free``, ``new``, ``reused``, ``evicted``, ``idle`` or ``locked``."""
    count: int


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of the tree, the root (id 0) left out. Parents come before their children."""

    id: int
    parent: int
    namespace: str
    tokens: tuple[int, ...]
    text: str
    """What the tokens say; empty where no tokenizer was at hand."""
    blocks: tuple[int, ...]
    locks: int
    hits: int
    mark: str
    """``new``, ``reused`` or ``idle``."""
    pinned: bool
    tail: bool
    """Its one block is partly filled."""
    request: int | None
    """Who stored it."""
    sessions: tuple[str, ...]
    """Ids of the sessions that stored or reused it."""
    created_seq: int
    last_seq: int
    created_epoch: int
    used_epoch: int


@dataclass(frozen=True, slots=True)
class GhostRecord:
    """What was evicted a short while ago, oldest first."""

    node: int
    parent: int
    path: tuple[int, ...]
    """Node ids from the root's child down to ``node``, when it was evicted."""
    tokens: tuple[int, ...]
    text: str
    blocks: tuple[int, ...]
    """Where its KV was; the blocks may be in use again."""
    part: bool
    """Only the end of ``node`` was evicted."""
    reason: str
    evicted_seq: int
    evicted_epoch: int
    wall_s: float | None
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowRecord:
    """An open request's row of the block table."""

    request: int
    session: str
    namespace: str
    prompt_tokens: int
    blocks: tuple[int, ...]
    """Physical block of each logical one."""
    written: int
    """Tokens whose KV exists."""
    reused: int
    reused_blocks: int
    copied: int
    resumed: bool


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request that waits, runs or was over a short while ago."""

    id: int
    session: str
    state: str
    """``waiting``, ``running``, ``preempted``, ``finished`` or ``refused``."""
    prompt_tokens: int
    cached: int
    copied: int
    prefilled: int
    output_tokens: int
    preemptions: int
    ttft_s: float | None
    decode_s: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class SessionName:
    """What a person calls a session."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class TotalsRecord:
    """Sums since the cache was created; prompt figures count first attempts only."""

    prompt_tokens: int
    hit: int
    copied: int
    computed: int
    first_seen: int
    evicted: int
    diverged: int
    rounding: int
    last_token: int
    other_namespace: int
    bypassed: int
    output_tokens: int
    evictions: int
    evicted_blocks: int
    superseded: int
    finished: int
    refused: int
    preempted: int
    steps: int

    @property
    def hit_rate(self) -> float:
        """(hit + copied) / prompt tokens, 0 where nothing was asked yet."""
        return (self.hit + self.copied) / self.prompt_tokens if self.prompt_tokens else 0.0
