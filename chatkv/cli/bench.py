"""``chatkv bench``: measurements."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

import typer

from chatkv.bench.workload import Workload
from chatkv.cli import choices
from chatkv.cli.bench_queue import queue
from chatkv.cli.bench_trace import trace
from chatkv.cli.defaults import naming_the_file
from chatkv.cli.models import check_model
from chatkv.cli.options import Group, takes
from chatkv.cli.output import check_target, print_table, progress_bar, write_json
from chatkv.engine.config import EngineConfig
from chatkv.sampling import SamplingParams

_LOAD = Workload()
_ENGINE = Group(EngineConfig, frozenset({"cache"}))
_SAMPLING = Group(SamplingParams, frozenset({"logprobs", "max_tokens", "seed"}))

bench = typer.Typer(help="Measure.", invoke_without_command=True, no_args_is_help=False)


@bench.callback(invoke_without_command=True)
@takes(config=_ENGINE, sampling=_SAMPLING)
def chats(
    context: typer.Context,
    config: EngineConfig,
    sampling: SamplingParams,
    cache: choices.Caches = "radix,none",
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each cache; medians are shown.")] = 1,
    sessions: Annotated[
        int, typer.Option(min=1, max=choices.MOST, help="Sessions talking at once.")
    ] = _LOAD.sessions,
    turns: Annotated[int, typer.Option(min=1, max=choices.MOST, help="Turns a session.")] = _LOAD.turns,
    groups: Annotated[
        int, typer.Option(min=1, max=choices.MOST, help="Different system prompts.")
    ] = _LOAD.groups,
    system_words: Annotated[
        int, typer.Option(min=1, max=choices.MOST, help="Words in a system prompt.")
    ] = _LOAD.system_words,
    user_words: Annotated[
        int, typer.Option(min=1, max=choices.MOST, help="Words in a question.")
    ] = _LOAD.user_words,
    answer_tokens: Annotated[
        int, typer.Option(min=1, max=choices.MOST, help="Tokens in an answer.")
    ] = _LOAD.answer_tokens,
    seed: Annotated[int, typer.Option(min=0, help="Of the words, and of what is sampled.")] = _LOAD.seed,
    json_out: choices.JsonOut = None,
) -> None:
    """Run a seeded workload of chats through the engine: tok/s, TTFT, reuse, evictions, memory.

    Caches alternate, each run in a process of its own.
    """
    if context.invoked_subcommand is not None:
        return
    from chatkv.bench.report import cell, medians, spread
    from chatkv.bench.worker import run_in_turn

    names = [name.strip() for name in cache.split(",")]
    with naming_the_file(context, "model"):
        check_model(config.model)
    workload = Workload(sessions, turns, groups, system_words, user_words, answer_tokens, seed).validate()
    configs = {name: replace(config, cache=name).validate() for name in names}
    sampling = replace(sampling, max_tokens=answer_tokens, seed=seed, ignore_stop=True)
    check_target(json_out)
    with progress_bar() as advance:
        runs = run_in_turn(configs, workload, sampling, rounds, advance)
    figures = {"workload": asdict(workload), "sampling": asdict(sampling), "runs": runs}
    if write_json(json_out, figures):
        middle = {name: medians(runs[name]) for name in names}
        print_table(
            ["median of " + str(rounds), *(">" + name for name in names)],
            [
                [row, *(cell(middle[name][row], *spread(runs[name], row)) for name in names)]
                for row in middle[names[0]]
            ],
        )
    for name in names:
        for line in sorted({message for run in runs[name] for message in run["failed"]}):
            typer.echo(f"{name}: a request ended early: {line}", err=True)
        for run in runs[name]:
            for line in run["differing"]:
                typer.echo(f"{name}: {line}", err=True)


bench.command()(trace)
bench.command()(queue)
