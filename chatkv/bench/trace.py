"""Run the cache core alone, without a model, over a trace of requests, one at a time.

They are served in file order, or in the order of a queue policy that sees a window of them.

Two forms, told apart by their first line:

* Mooncake (FAST'25): ``{"input_length": n, "hash_ids": [...]}``; an id stands for 512 tokens and all
  before them. Only full blocks are stored or hit, and the last token is always computed.
* Token ids: ``{"session": …, "turn": …, "prompt": [...], "output": [...]}``; ``prompt[:-1]`` is looked
  up, ``prompt + output[:-1]`` is stored, as after a real request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chatkv.bench.window import turns
from chatkv.errors import ChatkvError
from chatkv.files import UnreadableError, open_file
from chatkv.kvcache.cache import KVCache, blocks_for
from chatkv.kvcache.events import Int32Array
from chatkv.scheduler.waiting import WaitingQueue

MOONCAKE_BLOCK = 512


class Entry(NamedTuple):
    """One request in the cache's units: ``scale`` tokens a unit (1, or a Mooncake block)."""

    session: str
    prompt: Int32Array
    """Looked up, but for its last unit."""
    stored: Int32Array
    """Written and kept, from the start of the prompt."""
    tokens: int
    scale: int


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


def scale_of(path: Path) -> int:
    """Tokens a unit in the trace at ``path``: 512 for Mooncake's form, else 1. Raises ChatkvError."""
    for _, record, _ in _lines(path):
        if record is not None:
            return MOONCAKE_BLOCK if "hash_ids" in record else 1
    raise _no_trace(path)


def size_of(path: Path, block_size: int) -> tuple[int, int]:
    """How many requests the trace has, and blocks of ``block_size`` units that hold all of them at once.

    Raises ChatkvError where it has none, or can't be read.
    """
    requests = blocks = 0
    for entry in read_trace(path, lambda problem: None):
        requests += 1
        blocks += blocks_for(max(len(entry.prompt), len(entry.stored)), block_size) + 1
    if not requests:
        raise _no_trace(path)
    return requests, blocks


def _no_trace(path: Path) -> ChatkvError:
    return ChatkvError(
        f"{path}: no line of this file is a request; see chatkv bench trace --help for the forms"
    )


def read_trace(path: Path, problem: Callable[[str], None]) -> Iterator[Entry]:
    """The requests in ``path``; a line that is none is skipped, and ``problem`` hears its number and why.

    Raises ChatkvError where the file can't be read.
    """
    for number, record, fault in _lines(path):
        try:
            if record is None:
                raise ValueError(fault)
            yield _entry(record)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            said = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            problem(f"line {number} skipped: {said}")


def run_trace(
    cache: KVCache,
    path: Path,
    progress: Callable[[int], None] = lambda done: None,
    *,
    queue: WaitingQueue | None = None,
    window: int = 1,
) -> TraceResult:
    """Run ``path`` through ``cache``; a request that can't fit is counted and left out.

    ``queue`` (default: first come, first served) chooses among ``window`` waiting requests.
    """
    result = TraceResult()
    size = cache.block_size
    hits: dict[int, int] = {}
    passed: dict[int, int] = {}
    entries = read_trace(path, result.bad_lines.append)
    for entry, request in turns(entries, cache, WaitingQueue() if queue is None else queue, window):
        index = request.id
        result.requests += 1
        passed[index] = request.overtaken
        result.tokens += entry.tokens
        result.blocks += entry.tokens // (size * entry.scale)
        hit = copied = 0
        opened = None
        if blocks_for(len(entry.stored), size) <= cache.num_blocks:
            opened = cache.open(index, entry.prompt, session=entry.session, hashes=request.hashes)
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
    result.evicted_blocks = cache.evicted_blocks
    result.hits = [hits[index] for index in sorted(hits)]
    result.overtaken = [passed[index] for index in sorted(passed)]
    return result


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None, str]]:
    try:
        with open_file(path) as file, TextIOWrapper(file, "utf-8-sig", errors="replace") as text:
            for number, line in enumerate(text, start=1):
                if not line.strip():
                    continue
                try:
                    record = json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield number, None, f"not JSON ({error})"
                    continue
                if isinstance(record, dict):
                    yield number, record, ""
                else:
                    yield number, None, "not a JSON object"
    except UnreadableError as error:
        raise ChatkvError(f"{path} {error}") from None
    except OSError as error:
        raise ChatkvError(f"{path}: {error.strerror or error}") from None


def _entry(record: dict[str, Any]) -> Entry:
    if "hash_ids" in record:
        length = record["input_length"]
        ids = _ids(record["hash_ids"], "hash_ids")
        if not isinstance(length, int) or blocks_for(length, MOONCAKE_BLOCK) != len(ids) or not len(ids):
            raise ValueError(f"input_length {length!r} does not go with {len(ids)} hash_ids of 512 tokens")
        full = ids[: length // MOONCAKE_BLOCK]
        # A partly filled last block is looked up by nobody; it stands for the token always computed.
        return Entry("", ids, full, length, MOONCAKE_BLOCK)
    prompt, output = _ids(record["prompt"], "prompt"), _ids(record["output"], "output")
    if not len(prompt):
        raise ValueError("prompt is empty")
    stored = np.concatenate((prompt, output[:-1]))
    return Entry(str(record.get("session", "")), prompt, stored, len(prompt), 1)


def _ids(value: Any, name: str) -> Int32Array:
    if not isinstance(value, list) or not all(type(i) is int and -(2**31) <= i < 2**31 for i in value):
        raise ValueError(f"{name} must be a list of whole numbers of 32 bits")
    return np.array(value, dtype=np.int32)
