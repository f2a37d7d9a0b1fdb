"""``python -m benchmarks core``: the speed of the prefix cache alone, beside SGLang's."""

from __future__ import annotations

import platform
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from chatkv.cli import choices
from chatkv.cli.output import check_target, print_table, progress_bar, write_json
from chatkv.errors import ChatkvError

if TYPE_CHECKING:
    from benchmarks.core.chats import ChatRun
    from benchmarks.core.scale import Scale

POOL_TOKENS = 200_000
OWN = ("radix", "hash")
Case = tuple[int, int | None]
"""Tokens a block, tokens in the pool."""
Runs = dict[tuple[Case, str], "list[ChatRun]"]


def cache(
    cache: Annotated[
        str,
        choices.choice(OWN, "Which of ours; hash at blocks of 16 tokens only."),
    ] = "radix",
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Passes of each, in turn; medians.")] = 3,
    json_out: choices.JsonOut = None,
) -> None:
    """Match, insert and evict on 200 chats of 20 turns (12 million prompt tokens), µs a turn.

    SGLang's Python radix cache runs beside ours, in turn, where its wheel is installed; hit rates of the
    two trees must be equal.
    """
    from benchmarks.core import chats as cache_bench
    from benchmarks.core import sglang_peer

    check_target(json_out)
    names = [cache, "sglang"]
    if sglang_peer.installed() is None:
        names.remove("sglang")
        how = sglang_peer.HOW_TO_INSTALL
        typer.echo(f"chatkv: sglang is not installed, so ours runs alone; install it with: {how}", err=True)
    pages = (1, 16) if cache == "radix" else (16,)
    cases: list[Case] = [(page, pool) for page in pages for pool in (None, POOL_TOKENS)]
    runs: Runs = {}
    scale = None
    with progress_bar() as advance:
        total, done = rounds * len(cases) * len(names), 0
        for case in cases:
            for _ in range(rounds):
                for name in names:
                    advance(f"{name}, {case[0]} tokens a block", done, total)
                    runs.setdefault((case, name), []).append(cache_bench.run_chats(name, *case))
                    done += 1
        if cache == "radix":
            from benchmarks.core.scale import run_scale

            advance("memory, leaves, pauses", done, total)
            scale = run_scale()
    rows = [
        {"block_size": page, "pool_tokens": pool, "tree": name, "runs": [asdict(run) for run in made]}
        for ((page, pool), name), made in runs.items()
    ]
    data = {
        "versions": _versions(names),
        "chats": rows,
        "scale": None if scale is None else asdict(scale),
    }
    if write_json(json_out, data):
        _show(runs)
        if scale is not None:
            _show_scale(scale)
    if cache == "radix":
        _check_hits(runs)


def _versions(names: list[str]) -> dict[str, str]:
    import numpy as np

    from benchmarks.core.sglang_peer import version
    from chatkv import __version__

    out = {"chatkv": __version__, "python": platform.python_version(), "numpy": np.__version__}
    return {**out, "sglang": version()} if "sglang" in names else out


def _check_hits(runs: Runs) -> None:
    for (case, name), made in runs.items():
        rates = {run.hit_rate for run in made + runs.get((case, "sglang"), [])}
        if len(rates) > 1:
            raise ChatkvError(
                f"the hit rates of {name} and sglang differ at {case[0]} tokens a block: {sorted(rates)}"
            )


def _show(runs: Runs) -> None:
    from benchmarks.core.chats import middle

    table = []
    for (case, name), made in runs.items():
        m, sums = middle(made), [run.sum_us for run in made]
        theirs = runs.get((case, "sglang")) if name != "sglang" else None
        faster = f"{median(run.sum_us for run in theirs) / median(sums):.2g}" if theirs else ""
        table.append(
            (
                name,
                str(case[0]),
                "no limit" if case[1] is None else f"{case[1]:,}",
                f"{m.match_us:.1f}",
                f"{m.insert_us:.1f}",
                f"{median(sums):.1f} ({min(sums):.1f}–{max(sums):.1f})",
                faster,
                f"{m.evict_us:.1f}",
                f"{m.longest_ms:.1f}",
                f"{m.hit_rate:.4f}",
            )
        )
    heads = ["cache", ">block", ">pool", ">match µs", ">insert µs", ">sum µs", ">times sglang's speed"]
    print_table([*heads, ">evict µs", ">longest ms", ">hit rate"], table)


def _show_scale(scale: Scale) -> None:
    lines = [
        (f"bytes a cached token, block {page}: tree alone", f"{size:.1f}")
        for page, size in scale.tree_bytes.items()
    ]
    lines += [
        (f"bytes a cached token, block {page}: tree, pool, open block tables", f"{size:.1f}")
        for page, size in scale.open_bytes.items()
    ]
    lines += [
        (f"µs an eviction among {leaves:,} leaves", f"{us:.1f}") for leaves, us in scale.evict_us.items()
    ]
    size = f"{scale.tokens:,} tokens in {scale.nodes:,} nodes"
    lines += [(f"longest {what} at {size}, ms", f"{ms:.2f}") for what, ms in scale.longest_ms.items()]
    print()
    print_table(["chatkv's radix cache", ">"], lines)
