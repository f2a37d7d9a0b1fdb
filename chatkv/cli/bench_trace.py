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
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="JSONL: {input_length, hash_ids}, or {session, prompt, output}.")
    ],
    cache: choices.Cache = "radix",
    num_blocks: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_BLOCKS, help="Blocks in the pool; default: enough for the whole trace."),
    ] = None,
    block_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=choices.MOST,
            help="Tokens a block; default 16, or what the hashes in the file stand for.",
        ),
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

    A request a line: {"input_length": n, "hash_ids": [...]} (Mooncake, Qwen-Bailian; ids are numbers of 64
    bits or strings, each for a block of tokens), or {"session": …, "prompt": [...], "output": [...]} in token
    ids. Hashes are of blocks as a "block_size" in the file says, else as goes with the lengths. Requests are
    served in file order, times are not read; a policy other than fcfs chooses among the next --window
    requests, as if they all waited. The grain of eviction changes hit rates: it is named with every figure.
    """
    from chatkv.bench.trace import run_trace
    from chatkv.bench.trace_file import look_through, readable
    from chatkv.engine.stats import percentile
    from chatkv.kvcache.kinds import make_cache
    from chatkv.scheduler.waiting import WaitingQueue

    if cache == "hash" and eviction != "lru":
        raise UsageError("--cache hash evicts in the order of its queue: --eviction must be lru")
    check_target(json_out)
    file = context.with_resource(readable(file))
    source = look_through(file, block_size)
    core = make_cache(
        cache,
        num_blocks or source.num_blocks,
        source.cache_block,
        strict=strict_blocks,
        eviction=eviction,
        grain=evict_grain,
    )
    with progress_bar() as advance:
        result = run_trace(
            core,
            source,
            lambda done: advance("requests", done, source.requests),
            queue=WaitingQueue(policy, max_overtaken),
            window=window,
        )
    for line in result.bad_lines:
        typer.echo(f"chatkv: {file.name}: {line}", err=True)
    settings = {
        "file": file.name,
        "cache": cache,
        "num_blocks": core.num_blocks,
        "block_size": source.block_size,
        "block_size_from": source.told_by,
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
