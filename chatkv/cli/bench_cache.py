"""``chatkv bench cache``: the speed of the prefix cache alone, beside SGLang's."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from chatkv.cli.output import print_table, progress_bar, write_json

POOL_TOKENS = 200_000


def cache(
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Passes of each, in turn; medians.")] = 3,
    json_out: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON ('-': stdout).")
    ] = None,
) -> None:
    """Match, insert and evict on 200 chats of 20 turns (12 million prompt tokens), µs a turn.

    SGLang's Python radix cache runs beside ours, in turn, where its wheel is installed.
    """
    from chatkv.bench import cache_bench, sglang_peer

    names = list(cache_bench.PEERS)
    if sglang_peer.installed() is None:
        names.remove("sglang")
        how = sglang_peer.HOW_TO_INSTALL
        typer.echo(f"chatkv: sglang is not installed, so ours runs alone; install it with: {how}", err=True)
    cases = [(page, pool) for page in (1, 16) for pool in (None, POOL_TOKENS)]
    runs: dict[tuple[int, int | None, str], list[cache_bench.ChatRun]] = {}
    with progress_bar() as advance:
        total, done = rounds * len(cases) * len(names), 0
        for page, pool in cases:
            for _ in range(rounds):
                for name in names:
                    advance(f"{name}, {page} tokens a block", done, total)
                    run = cache_bench.run_chats(name, page, pool)
                    runs.setdefault((page, pool, name), []).append(run)
                    done += 1
        advance("memory, leaves, pauses", done, total)
        scale = cache_bench.run_scale()
    if json_out is not None:
        rows = [
            {"block_size": page, "pool_tokens": pool, "tree": name, "runs": [asdict(run) for run in made]}
            for (page, pool, name), made in runs.items()
        ]
        write_json(json_out, {"chats": rows, "scale": asdict(scale)})
        if str(json_out) == "-":
            return
    table = []
    for (page, pool, name), made in runs.items():
        m = cache_bench.middle(made)
        figures: list[Any] = [m.match_us, m.insert_us, m.match_us + m.insert_us, m.evict_us, m.longest_ms]
        table.append(
            [name, str(page), "no limit" if pool is None else f"{pool:,}"]
            + [f"{value:.1f}" for value in figures]
            + [f"{m.hit_rate:.4f}"]
        )
    heads = ["tree", ">block", ">pool", ">match µs", ">insert µs", ">sum µs", ">evict µs"]
    print_table([*heads, ">longest ms", ">hit rate"], table)
    lines = [
        (f"bytes a cached token, block {page}", f"{size:.1f}") for page, size in scale.bytes_per_token.items()
    ]
    lines += [
        (f"µs an eviction among {leaves:,} leaves", f"{us:.1f}") for leaves, us in scale.evict_us.items()
    ]
    size = f"{scale.tokens:,} tokens in {scale.nodes:,} nodes"
    lines += [(f"longest match or insert at {size}, ms", f"{scale.longest_ms:.2f}")]
    print()
    print_table(["chatkv's tree", ">"], lines)
