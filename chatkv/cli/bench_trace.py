"""``chatkv bench trace``: the cache core alone over a file of requests."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from chatkv.cli import choices
from chatkv.cli.output import check_target, print_table, progress_bar, write_json
from chatkv.engine.config import MAX_BLOCKS
from chatkv.errors import UsageError
from chatkv.scheduler.names import MATCH_LIMIT, MAX_OVERTAKEN


def trace(
    file: Annotated[Path, typer.Argument(help="JSONL: Mooncake's form, or {session, turn, prompt, output}.")],
    cache: choices.Cache = "radix",
    num_blocks: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_BLOCKS, help="Blocks in the pool; default: enough for the whole trace."),
    ] = None,
    block_size: Annotated[
        int | None,
        typer.Option(min=1, max=choices.MOST, help="Tokens a block; default 16. Mooncake's blocks have 512."),
    ] = None,
    evict_grain: choices.EvictGrain = "node",
    eviction: choices.Eviction = "lru",
    strict_blocks: Annotated[
        bool, typer.Option("--strict-blocks", help="Reuse whole blocks only, as SGLang and vLLM do.")
    ] = False,
    policy: choices.Policy = "fcfs",
    window: Annotated[
        int,
        typer.Option(
            min=1,
            max=choices.MOST,
            help=f"Waiting requests that the policy sees; lpm: at most {MATCH_LIMIT}.",
        ),
    ] = 64,
    max_overtaken: Annotated[
        int,
        typer.Option(
            min=0, max=choices.MOST, help="How often a waiting request may be overtaken; 0: no bound."
        ),
    ] = MAX_OVERTAKEN,
    json_out: choices.JsonOut = None,
) -> None:
    """Run a trace through the cache, one request at a time, and count what is reused and evicted.

    A policy other than fcfs chooses among the next --window requests, as if they all waited. The grain of
    eviction changes hit rates: it is named with every figure.
    """
    from chatkv.bench.trace import MOONCAKE_BLOCK, run_trace, scale_of, size_of
    from chatkv.engine.stats import percentile
    from chatkv.kvcache.kinds import make_cache
    from chatkv.scheduler.waiting import WaitingQueue

    if cache == "hash" and eviction != "lru":
        raise UsageError("--cache hash evicts in the order of its queue: --eviction must be lru")
    check_target(json_out)
    scale = scale_of(file)
    if scale == MOONCAKE_BLOCK:
        if block_size not in (None, MOONCAKE_BLOCK):
            raise UsageError(f"{file.name} gives hashes of 512-token blocks: --block-size must be 512")
        size, unit = MOONCAKE_BLOCK, 1
    else:
        size = unit = block_size or 16
    requests, room = size_of(file, unit)
    core = make_cache(
        cache, num_blocks or max(room, 1), unit, strict=strict_blocks, eviction=eviction, grain=evict_grain
    )
    with progress_bar() as advance:
        result = run_trace(
            core,
            file,
            lambda done: advance("requests", done, requests),
            queue=WaitingQueue(policy, max_overtaken),
            window=window,
        )
    for line in result.bad_lines:
        typer.echo(f"chatkv: {file.name}: {line}", err=True)
    settings = {
        "file": file.name,
        "cache": cache,
        "num_blocks": core.num_blocks,
        "block_size": size,
        "strict": strict_blocks or cache == "hash",
        "eviction": eviction,
        "evict_grain": "block" if cache == "hash" else evict_grain,
        "policy": policy,
        "window": window,
        "max_overtaken": max_overtaken,
    }
    if not write_json(json_out, {"settings": settings, **asdict(result)}):
        return
    counts = [(name, value) for name, value in asdict(result).items() if isinstance(value, int)]
    share = 100 * result.hit_tokens / result.tokens if result.tokens else 0.0
    print_table(
        ["trace", ">"],
        [(name, str(value)) for name, value in settings.items()]
        + [(name.replace("_", " "), f"{value:,}") for name, value in counts]
        + [
            ("hit rate, % of tokens", f"{share:.2f}"),
            ("overtaken, p50", f"{percentile(result.overtaken, 0.5):.0f}"),
            ("overtaken, p95", f"{percentile(result.overtaken, 0.95):.0f}"),
            ("overtaken, most", str(max(result.overtaken, default=0))),
        ],
    )
