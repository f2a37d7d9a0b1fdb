"""Run the cache core alone, without a model, over a trace of requests, one at a time.

They are served in file order, or in the order of a queue policy that sees a window of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chatkv.bench.trace_file import Trace, look_through, read_trace
from chatkv.bench.window import turns
from chatkv.kvcache.cache import KVCache, blocks_for
from chatkv.scheduler.waiting import WaitingQueue

MOST_TOLD = 100
"""How many lines that are no request are told of one by one."""


@dataclass
class TraceResult:
    """``blocks``: full blocks of all prompts. ``hits``: hit tokens of each request, and ``overtaken``: how
    often one after it was served first; both in file order.
    """

    requests: int = 0
    blocks: int = 0
    hit_blocks: int = 0
    tokens: int = 0
    hit_tokens: int = 0
    copied_tokens: int = 0
    evicted_blocks: int = 0
    not_admitted: int = 0
    bad_lines: list[str] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)
    overtaken: list[int] = field(default_factory=list)


def run_trace(
    cache: KVCache,
    trace: Trace | Path,
    progress: Callable[[int], None] = lambda done: None,
    *,
    queue: WaitingQueue | None = None,
    window: int = 1,
) -> TraceResult:
    """Run ``trace`` through ``cache``; a request that can't fit is counted and left out.

    A path is looked through first, which raises ChatkvError where it is no trace. ``queue`` (default: first
    come, first served) chooses among ``window`` waiting requests.
    """
    result = TraceResult()
    size = cache.block_size
    hits: dict[int, int] = {}
    passed: dict[int, int] = {}
    bad = 0

    def skipped(line: str) -> None:
        nonlocal bad
        bad += 1
        if bad <= MOST_TOLD:
            result.bad_lines.append(line)

    entries = read_trace(look_through(trace) if isinstance(trace, Path) else trace, skipped)
    for entry, request in turns(entries, cache, WaitingQueue() if queue is None else queue, window):
        index = request.id
        result.requests += 1
        passed[index] = request.overtaken
        result.tokens += entry.tokens
        result.blocks += entry.tokens // (size * entry.scale)
        hit = copied = 0
        opened = None
        if blocks_for(len(entry.stored), size) <= cache.num_blocks:
            opened = cache.open(
                index, entry.prompt, session=entry.session, lookup=request.lookup, priority=entry.priority
            )
        if opened is None:
            result.not_admitted += 1
        else:
            hit, copied = opened.cached, opened.copied
            if cache.grow(index, len(entry.stored)):
                cache.commit(index, entry.stored[hit:])
                cache.close(index, "finished")
            else:
                cache.close(index, "preempted")
                result.not_admitted += 1
                hit = copied = 0
        hits[index] = hit * entry.scale
        result.hit_tokens += hit * entry.scale
        result.hit_blocks += hit // size
        result.copied_tokens += copied * entry.scale
        progress(result.requests)
    if bad > MOST_TOLD:
        result.bad_lines.append(f"{bad - MOST_TOLD:,} more lines skipped")
    result.evicted_blocks = cache.evicted_blocks
    result.hits = [hits[index] for index in sorted(hits)]
    result.overtaken = [passed[index] for index in sorted(passed)]
    return result
