"""``chatkv bench queue``: what a queue policy gives hot requests and takes from cold ones."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from chatkv.cli import choices
from chatkv.cli.defaults import naming_the_file
from chatkv.cli.models import check_model
from chatkv.cli.output import check_target, print_table, progress_bar, write_json
from chatkv.engine.config import EngineConfig
from chatkv.errors import UsageError
from chatkv.scheduler.names import MAX_OVERTAKEN, policy_label

_DEFAULT = EngineConfig()


def queue(
    context: typer.Context,
    model: choices.Model = _DEFAULT.model,
    policy: choices.Policies = "fcfs,lpm",
    max_overtaken: Annotated[
        str, typer.Option(metavar="N,…", help="Which bounds to compare; 0: no aging.")
    ] = f"0,{MAX_OVERTAKEN}",
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Runs of each; medians are shown.")] = 1,
    requests: Annotated[int, typer.Option(min=1, max=choices.MOST, help="Prompts in all.")] = 300,
    clients: Annotated[
        int, typer.Option(min=1, max=choices.MOST, help="How many ask at once, each again and again.")
    ] = 24,
    cold_percent: Annotated[int, typer.Option(min=1, max=99, help="Prompts unlike any other.")] = 5,
    groups: Annotated[
        int, typer.Option(min=1, max=choices.MOST, help="Texts that hot prompts begin with.")
    ] = 2,
    prefix_words: Annotated[int, typer.Option(min=1, max=choices.MOST, help="Words in such a text.")] = 150,
    user_words: Annotated[int, typer.Option(min=1, max=choices.MOST, help="Words after it.")] = 8,
    answer_tokens: Annotated[int, typer.Option(min=1, max=choices.MOST, help="Tokens in an answer.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Of the words.")] = 0,
    max_running: Annotated[int, typer.Option(min=1, max=choices.MOST, help="Requests that run at once.")] = 8,
    max_batch_tokens: Annotated[int, typer.Option(min=1, max=choices.MOST)] = _DEFAULT.max_batch_tokens,
    admission: choices.Admission = _DEFAULT.admission,
    cache: choices.Cache = _DEFAULT.cache,
    block_size: choices.BlockSize = _DEFAULT.block_size,
    num_blocks: choices.NumBlocks = None,
    device: choices.Device = _DEFAULT.device,
    dtype: choices.Dtype = _DEFAULT.dtype,
    threads: choices.Threads = None,
    json_out: choices.JsonOut = None,
) -> None:
    """Hot and cold prompts through the engine: time to the first token of each, and who was overtaken.

    Policies and bounds alternate, each run in a process of its own.
    """
    from chatkv.bench.hot_cold import HotCold, figures, spread
    from chatkv.bench.report import cell
    from chatkv.bench.worker import run_in_turn
    from chatkv.engine.messages import Sampling

    workload = HotCold(
        requests, clients, cold_percent, groups, prefix_words, user_words, answer_tokens, seed
    ).validate()
    configs: dict[str, EngineConfig] = {}
    for name in (part.strip() for part in policy.split(",")):
        for bound in _bounds(max_overtaken):
            configs[policy_label(name, bound)] = EngineConfig(
                model=model,
                block_size=block_size,
                num_blocks=num_blocks,
                max_batch_tokens=max_batch_tokens,
                max_running=max_running,
                device=device,
                dtype=dtype,
                cache=cache,
                policy=name,
                max_overtaken=bound,
                admission=admission,
                threads=threads,
            ).validate()
    with naming_the_file(context, "model"):
        check_model(model)
    check_target(json_out)
    with progress_bar() as advance:
        runs = run_in_turn(configs, workload, Sampling(), rounds, advance)
    if write_json(json_out, {"workload": asdict(workload), "max_running": max_running, "runs": runs}):
        rows = figures(next(iter(runs.values()))[0])
        print_table(
            [f"median of {rounds}", *(f">{label}" for label in runs)],
            [[row, *(cell(*spread(done, row)) for done in runs.values())] for row in rows],
        )
    for label, done in runs.items():
        for line in sorted({message for run in done for message in run["failed"]}):
            typer.echo(f"{label}: a request ended early: {line}", err=True)


def _bounds(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        raise UsageError(f"--max-overtaken takes whole numbers separated by commas, not {text!r}")
    return [int(part) for part in parts]
