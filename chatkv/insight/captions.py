"""One sentence for each record worth telling, for someone who sees a KV cache for the first time."""

from __future__ import annotations

from collections.abc import Callable
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
    """The sentence, or None where the record says nothing a person would want to read."""
    teller = _TELLERS.get(type(event))
    return None if teller is None else teller(event, names or Names())


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
    why = ORDER.get(e.strategy, f"first by {e.strategy}")
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


_TELLERS: dict[type[kv.Event], Callable[[Any, Names], str]] = {
    kv.CacheCreated: _created,
    kv.RequestOpened: _opened,
    kv.PrefixReused: _reused,
    kv.BlocksAllocated: _allocated,
    kv.SlotsCopied: _copied,
    kv.NodeStored: _stored,
    kv.NodeExtended: _extended,
    kv.NodeSplit: _split,
    kv.ChildrenMoved: _moved,
    kv.RowRepointed: _repointed,
    kv.NodeEvicted: _evicted,
    kv.NodeTrimmed: _trimmed,
    kv.NodePinned: _pinned,
    kv.BlocksFreed: _freed,
    kv.PromptAccounted: _accounted,
    kv.CacheCleared: _cleared,
    sched.RequestQueued: _queued,
    sched.RequestRefused: _refused,
    sched.RequestAdmitted: _admitted,
    sched.RequestPreempted: _preempted,
    sched.PinRefused: _pin_refused,
    sched.FirstToken: _first_token,
    sched.RequestFinished: _finished,
}
