"""All there is to tell of each kind of event, in one table: ``KINDS``.

A sentence for someone who sees a KV cache for the first time, how much it is worth telling, how it looks,
which nodes and blocks it is about, and what it says in the past of a node or a block. The log, the caption,
the inspector and the screen read it; a new kind of event is a line here and a handler in the mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from chatkv.insight.reuse import reused
from chatkv.insight.visible import counted, cut
from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched

ORDER = {
    "lru": "least recently used",
    "lfu": "least often used",
    "fifo": "oldest",
    "mru": "most recently used",
    "filo": "newest",
    "priority": "lowest priority",
    "slru": "least recently used of those used least",
}
"""Eviction strategies, as the kind of leaf that goes first."""


def goes_first(strategy: str) -> str:
    """Return which leaf ``strategy`` evicts first, in words; one of somebody's own by its name."""
    return ORDER.get(strategy, f"first by {strategy}")


def node_name(node: int) -> str:
    """``node 7``; what a caption calls a node unless told otherwise."""
    return "the root" if node == kv.ROOT else f"node {node}"


def request_name(request: int) -> str:
    """``request 3``; what a caption calls a request unless told otherwise."""
    return f"request {request}"


class Names(NamedTuple):
    """What to call a node and a request, by id; shown as it is, so make it ``visible``."""

    node: Callable[[int], str] = node_name
    request: Callable[[int], str] = request_name


def caption(event: kv.Event, names: Names | None = None) -> str | None:
    """Return the sentence, or None where the event says nothing a person would want to read."""
    sentence = KINDS.get(type(event), UNTOLD).sentence
    return None if sentence is None else sentence(event, names or Names())


def _created(e: kv.CacheCreated, names: Names) -> str:
    return f"an empty cache: {counted(e.num_blocks, 'block')} of {counted(e.block_size, 'token')} each"


def _opened(e: kv.RequestOpened, names: Names) -> str:
    # Who is called otherwise is called by the session.
    session = f" from {cut(e.session, 40)}" if e.session and names.request is request_name else ""
    how = "comes back after it was preempted" if e.resumed else "starts"
    return f"{names.request(e.request)}{session} {how}: {counted(e.prompt_tokens, 'prompt token')}"


def _reused(e: kv.PrefixReused, names: Names) -> str:
    where = counted(len(e.path), "node")
    found = f"{names.request(e.request)} reused {counted(e.tokens, 'token')} in {where}"
    return f"{found}: no need to compute them again"


def _allocated(e: kv.BlocksAllocated, names: Names) -> str:
    return f"{names.request(e.request)} took {counted(len(e.blocks), 'free block')}"


def _copied(e: kv.SlotsCopied, names: Names) -> str:
    source = f"block {e.source}" if e.node is None else names.node(e.node)
    copied = f"{names.request(e.request)} reused {counted(e.tokens, 'token')} by copying from {source}"
    return f"{copied}: of a block only the beginning is the same"


def _stored(e: kv.NodeStored, names: Names) -> str:
    who = "" if e.request is None else f" by {names.request(e.request)}"
    size = f"{counted(len(e.tokens), 'token')} in {counted(len(e.blocks), 'block')}"
    stored = f"{names.node(e.node)} stored under {names.node(e.parent)}{who}"
    return f"{stored}: {size}, now others can reuse them"


def _extended(e: kv.NodeExtended, names: Names) -> str:
    return f"{names.node(e.node)} grew by {counted(len(e.tokens), 'token')}"


def _split(e: kv.NodeSplit, names: Names) -> str:
    where = f"{names.node(e.node)} split at {counted(e.at, 'token')}"
    return f"{where}: two prompts now share its first part, {names.node(e.upper)}"


def _moved(e: kv.ChildrenMoved, names: Names) -> str:
    return f"{names.node(e.heir)} takes the place of {names.node(e.node)}: it holds the same tokens"


def _repointed(e: kv.RowRepointed, names: Names) -> str:
    size = counted(len(e.new), "block")
    return f"{names.request(e.request)} now uses {size} of the tree in place of its own equal ones"


def _evicted(e: kv.NodeEvicted, names: Names) -> str:
    if e.reason == "superseded":
        same = counted(e.tokens, "token")
        return f"{names.node(e.node)} gave way to a block that starts with the same {same}"
    return f"{names.node(e.node)} evicted: {counted(e.tokens, 'token')}, {_victim(e)}"


def _trimmed(e: kv.NodeTrimmed, names: Names) -> str:
    return f"{names.node(e.node)} lost its last {counted(e.tokens, 'token')}: {_victim(e)}"


def _victim(e: kv.NodeEvicted | kv.NodeTrimmed) -> str:
    why = goes_first(e.strategy)
    if e.leaves == 1:
        return "the only leaf nobody uses"
    return f"{why} of {e.leaves} leaves nobody uses" if e.leaves else why


def _pinned(e: kv.NodePinned, names: Names) -> str:
    return (
        f"{names.node(e.node)} pinned: it will be evicted last"
        if e.pinned
        else f"{names.node(e.node)} no longer pinned"
    )


def _pin_refused(e: sched.PinRefused, names: Names) -> str:
    return f"{names.node(e.node)} not pinned: {cut(e.reason, 300)}"


def _freed(e: kv.BlocksFreed, names: Names) -> str:
    why = {"duplicate": "the tree has the same", "preempted": "others need the room"}.get(e.reason, e.reason)
    return f"{names.request(e.request)} gave back {counted(len(e.blocks), 'block')}: {why}"


def _to_whom(e: kv.PromptAccounted, names: Names) -> str:
    when = "" if e.evicted_seq is None else f" (at {e.evicted_seq}"
    whom = "" if e.evicted_by is None else f" for {names.request(e.evicted_by)}"
    return f"{when}{whom})" if when else ""


def _accounted(e: kv.PromptAccounted, names: Names) -> str:
    hit = e.hit + e.copied
    parts = [
        (e.first_seen, "never seen before"),
        (e.evicted, f"evicted before{_to_whom(e, names)}"),
        (e.diverged, f"behind the first difference, at token {e.diverged_at}"),
        (e.rounding, "lost to rounding to whole blocks"),
        (e.last_token, "the last token, always computed"),
        (e.other_namespace, "known only in another namespace"),
        (e.bypassed, "computed because reuse is off"),
    ]
    told = [f"{count} {what}" for count, what in parts if count]
    told = [f"{reused(hit, e.copied)} reused", *told] if hit else told
    return f"{names.request(e.request)}: of {counted(e.prompt_tokens, 'prompt token')} {', '.join(told)}"


def _cleared(e: kv.CacheCleared, names: Names) -> str:
    return "the cache was cleared: every block is free"


def _refused(e: sched.RequestRefused, names: Names) -> str:
    return f"{names.request(e.request)} refused: {cut(e.reason, 200)}"


def _queued(e: sched.RequestQueued, names: Names) -> str:
    return f"{names.request(e.request)} waits its turn: {counted(e.prompt_tokens, 'prompt token')}"


def _admitted(e: sched.RequestAdmitted, names: Names) -> str:
    passed = f"; {counted(e.overtaken, 'later one')} ran first" if e.overtaken else ""
    cached = counted(e.cached, "token")
    return f"{names.request(e.request)} runs: {cached} need no computing, {e.waiting} still wait{passed}"


def _preempted(e: sched.RequestPreempted, names: Names) -> str:
    return f"{names.request(e.request)} preempted, it will run again later: {cut(e.reason, 200)}"


def _first_token(e: sched.FirstToken, names: Names) -> str:
    return f"{names.request(e.request)} has its first token after {_seconds(e.ttft_s)}"


def _finished(e: sched.RequestFinished, names: Names) -> str:
    rate = (
        f" at {(e.output_tokens - 1) / e.decode_s:.1f} tok/s"
        if e.output_tokens > 1 and e.decode_s > 0
        else ""
    )
    why = {
        "stop": "the model ended its answer",
        "length": "the token limit was reached",
        "context": "the context is full",
        "aborted": "stopped by a person",
    }.get(e.reason, e.reason)
    made = counted(e.output_tokens, "token")
    of = f"{reused(e.cached, e.copied)} of {counted(e.prompt_tokens, 'prompt token')} reused"
    return f"{names.request(e.request)} over ({cut(why, 80)}): {made}{rate}, {of}"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


# --- what an event is about -----------------------------------------------------------------------


class Touched(NamedTuple):
    """Ids; empty where the event is about neither."""

    nodes: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    request: int | None = None
    """Whose doing it was. Where there are no nodes, those of its row are what it is about."""


def touched(event: kv.Event) -> Touched:
    """Return what ``event`` is about; the first node is the one it is most about."""
    kind = KINDS.get(type(event), UNTOLD)
    return Touched(kind.nodes(event), kind.blocks(event), getattr(event, "request", None))


def _nothing(e: Any) -> tuple[int, ...]:
    return ()


def _its_node(e: Any) -> tuple[int, ...]:
    return () if e.node in (None, kv.ROOT) else (e.node,)


def _its_blocks(e: Any) -> tuple[int, ...]:
    return tuple(e.blocks.tolist())


# --- the past of a node or a block ----------------------------------------------------------------


def by_request(request: int | None) -> str:
    """Return who did it, as words that go behind what was done; empty where nobody in particular did."""
    return "" if request is None else f" by request {request}"


def _made(e: kv.NodeStored, node: int) -> str:
    return f"made{by_request(e.request)}: {counted(len(e.tokens), 'token')}"


def _halved(e: kv.NodeSplit, node: int) -> str:
    if e.node == node:
        return f"split at {counted(e.at, 'token')}: node {e.upper} took the first part"
    return f"split off: the first {counted(e.at, 'token')} of node {e.node}"


def _read(e: kv.SlotsCopied, node: int) -> str:
    return f"{counted(e.tokens, 'token')} copied by request {e.request}"


def _gone(e: kv.NodeEvicted, node: int) -> str:
    return f"evicted for {e.reason}{by_request(e.request)}, unused for {e.age} events"


def _cut(e: kv.NodeTrimmed, node: int) -> str:
    return f"lost its last {counted(e.tokens, 'token')} for {e.reason}{by_request(e.request)}"


def _taken(e: kv.BlocksAllocated, block: int) -> str:
    return (
        f"taken by request {e.request} as its logical block {e.logical + int((e.blocks == block).argmax())}"
    )


def _given(e: kv.NodeStored | kv.NodeExtended, block: int) -> str:
    return f"given to node {e.node}{by_request(e.request)}"


def _copies(e: kv.SlotsCopied, block: int) -> str:
    if e.source == block:
        return f"{counted(e.tokens, 'token')} copied to block {e.target}"
    return f"got {counted(e.tokens, 'token')} copied from block {e.source}"


def _emptied(e: kv.NodeEvicted | kv.NodeTrimmed, block: int) -> str:
    return f"freed: node {e.node} was evicted for {e.reason}{by_request(e.request)}"


def _used_by(e: Any, id: int) -> str:
    return f"reused by request {e.request}"


# --- the table ------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """What there is to tell of a kind of event."""

    sentence: Callable[[Any, Names], str] | None = None
    weight: int | None = None
    """How much it is worth telling; None: the caption does not tell it. What a person asked for comes first,
    then what changes the tree or costs computing again, then what saves it, then everyday work."""
    look: str = ""
    """The state whose colour and glyph it takes (``NEW``, ``PINNED`` …), or a glyph of its own."""
    nodes: Callable[[Any], tuple[int, ...]] = _nothing
    blocks: Callable[[Any], tuple[int, ...]] = _nothing
    node_past: Callable[[Any, int], str] | None = None
    """What it says in the past of one of its ``nodes``."""
    block_past: Callable[[Any, int], str] | None = None
    """What it says in the past of one of its ``blocks``."""

    @property
    def has_past(self) -> bool:
        """Whether it says something of a node or a block."""
        return self.node_past is not None or self.block_past is not None


UNTOLD = Kind()

KINDS: Mapping[type[kv.Event], Kind] = {
    kv.CacheCreated: Kind(_created, 3),
    kv.RequestOpened: Kind(_opened, 1),
    kv.PrefixReused: Kind(
        _reused, 6, "REUSED", lambda e: e.path[::-1], _its_blocks, node_past=_used_by, block_past=_used_by
    ),
    kv.BlocksAllocated: Kind(_allocated, 0, blocks=_its_blocks, block_past=_taken),
    kv.SlotsCopied: Kind(
        _copied, 5, "COPIED", _its_node, lambda e: (e.source, e.target), node_past=_read, block_past=_copies
    ),
    kv.NodeStored: Kind(_stored, 3, "NEW", _its_node, _its_blocks, node_past=_made, block_past=_given),
    kv.NodeExtended: Kind(_extended, 1, "NEW", _its_node, _its_blocks, block_past=_given),
    kv.NodeSplit: Kind(_split, 8, "/", lambda e: (e.upper, e.node), node_past=_halved),
    kv.ChildrenMoved: Kind(_moved, 2, nodes=lambda e: (e.heir, e.node)),
    kv.RowRepointed: Kind(
        _repointed,
        2,
        blocks=lambda e: tuple(e.new.tolist()),
        block_past=lambda e, block: f"request {e.request} found it in place of its own copy",
    ),
    kv.NodeEvicted: Kind(
        _evicted, 7, "EVICTED", _its_node, _its_blocks, node_past=_gone, block_past=_emptied
    ),
    kv.NodeTrimmed: Kind(_trimmed, 7, "EVICTED", _its_node, _its_blocks, _cut, _emptied),
    kv.NodePinned: Kind(
        _pinned,
        10,
        "PINNED",
        _its_node,
        node_past=lambda e, node: "pinned" if e.pinned else "no longer pinned",
    ),
    kv.PathLocked: Kind(look="LOCKED", nodes=_its_node),
    kv.PathUnlocked: Kind(look="IDLE", nodes=_its_node),
    kv.PathUsed: Kind(nodes=_its_node),
    kv.BlocksFreed: Kind(
        _freed,
        1,
        "FREE",
        blocks=_its_blocks,
        block_past=lambda e, block: f"given back by request {e.request}: {e.reason}",
    ),
    kv.PromptAccounted: Kind(_accounted, 4),
    kv.CacheCleared: Kind(
        _cleared, 10, "EVICTED", block_past=lambda e, block: "freed: the cache was cleared"
    ),
    sched.RequestQueued: Kind(_queued, 1),
    sched.RequestRefused: Kind(_refused, 10),
    sched.RequestAdmitted: Kind(_admitted, 2),
    sched.RequestPreempted: Kind(_preempted, 9),
    sched.PinRefused: Kind(_pin_refused, 10, nodes=_its_node),
    sched.FirstToken: Kind(_first_token, 1),
    sched.RequestFinished: Kind(_finished, 4),
}
"""Kind of event → what there is to tell of it."""
