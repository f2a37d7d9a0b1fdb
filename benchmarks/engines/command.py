"""``python -m benchmarks engines``: this engine beside others on the same weights."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from chatkv.cli import choices
from chatkv.cli.defaults import naming_the_file
from chatkv.cli.models import check_model
from chatkv.cli.output import check_target, print_table, progress_bar, write_json
from chatkv.errors import UsageError
from chatkv.files import write_whole

if TYPE_CHECKING:
    from benchmarks.engines.compare import Comparison

OTHERS = ("transformers", "llama.cpp", "vllm")
_BAR = 40


def compare(
    context: typer.Context,
    model: choices.Model = choices.MODEL,
    others: Annotated[
        str, typer.Option("--with", metavar=",".join(OTHERS), help="Which engines to run beside ours.")
    ] = ",".join(OTHERS),
    python: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENGINE=PYTHON", help="The interpreter an engine is installed for, where it is not ours."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Passes, in turn; medians are shown.")] = 3,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="For each engine.")] = 2,
    quality: Annotated[
        bool, typer.Option(help="Also measure how far our number formats are from fp32.")
    ] = True,
    json_out: choices.JsonOut = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a plot.")] = None,
) -> None:
    """Decode, prefill and time to first token, in turn, each engine in a process of its own.

    The same weights, random prompts, token counts and threads; greedy. An engine that is not installed
    is left out, with a line that says how to get it.
    """
    from benchmarks.engines.compare import BATCH, MAX_TOKENS
    from benchmarks.engines.compare import compare as run
    from benchmarks.engines.peers.base import Setup
    from benchmarks.engines.peers.process import PEERS, installed
    from chatkv.model.catalog import resolve
    from chatkv.model.config import DecoderConfig

    check_target(json_out)
    check_target(svg)
    pythons = _pythons(python or ())
    names = ["chatkv"]
    for name in filter(None, (part.strip() for part in others.split(","))):
        if name not in OTHERS:
            raise UsageError(f"--with must name some of {', '.join(OTHERS)}, got {name!r}")
        if name in names:
            continue
        if installed(name, pythons.get(name)):
            names.append(name)
        else:
            typer.echo(f"chatkv: {name} is not installed, it is left out; {PEERS[name].install}", err=True)
    with naming_the_file(context, "model"):
        check_model(model)
    folder = resolve(model, lambda stage, done: None)
    gguf = _gguf(folder)
    if gguf is None and "llama.cpp" in names:
        names.remove("llama.cpp")
        typer.echo("chatkv: this model did not come as a GGUF file, llama.cpp is left out", err=True)
    setup = Setup(str(folder), None if gguf is None else str(gguf), threads, MAX_TOKENS, BATCH)
    kls: dict[str, float] = {}
    with progress_bar() as advance:
        found = run(names, setup, DecoderConfig.load(folder).vocab, rounds, advance, pythons=pythons)
        if quality:
            from benchmarks.engines.quality import mean_kl

            advance("quality", 0, 0)
            kls = mean_kl(folder, ["bf16", "int8", "int4"])
    tables = write_json(json_out, {"setup": asdict(setup), **asdict(found), "mean_kl": kls})
    if svg is not None:
        _plot(found, svg)
    if tables:
        _show(found)
        for dtype, kl in kls.items():
            print(f"mean KL of the next token from fp32, {dtype}: {kl:.4f}")


def _pythons(given: Iterable[str]) -> dict[str, str]:
    """``ENGINE=PYTHON`` → {engine: path}. Raises UsageError."""
    out = {}
    for part in given:
        name, equals, path = part.partition("=")
        if not equals or name not in OTHERS:
            raise UsageError(
                f"--python must be ENGINE=PYTHON, the engine one of {', '.join(OTHERS)}; got {part!r}"
            )
        out[name] = os.path.expanduser(path)
        if not os.access(out[name], os.X_OK) or os.path.isdir(out[name]):
            raise UsageError(f"--python {name}: {path!r} is no program")
    return out


def _gguf(folder: Path) -> Path | None:
    """The GGUF file that the model in ``folder`` was converted from, where it is still there."""
    try:
        name = json.loads((folder / "chatkv.json").read_text(encoding="utf-8"))["gguf"]
        path = folder / name
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return path if path.is_file() else None


def _show(found: Comparison) -> None:
    from benchmarks.engines.compare import CASES

    names = list(found.about)
    rows = [("", *(found.about[name] for name in names), *("" for _ in names[1:]))]
    for case in CASES:
        cells = []
        for name in names:
            made = found.figures[case.title].get(name)
            cells.append(_spread(made) if made else "")
        ours = found.middle(case, "chatkv")
        ratios = []
        for name in names[1:]:
            theirs = found.middle(case, name)
            ratios.append("" if theirs is None or ours is None else f"{case.ratio(ours, theirs):.2f}")
        rows.append((f"{case.title}, {case.unit}", *cells, *ratios))
    heads = ["", *(f">{name}" for name in names), *(f">times {name}'s speed" for name in names[1:])]
    print_table(heads, rows)


def _spread(made: list[float]) -> str:
    return f"{_short(median(made))} ({_short(min(made))}–{_short(max(made))})"


def _short(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}"


def _plot(found: Comparison, path: Path) -> None:
    """Bars, one for each engine and case, as an SVG of text."""
    import io

    from rich.console import Console
    from rich.text import Text

    from benchmarks.engines.compare import CASES

    console = Console(record=True, width=100, file=io.StringIO(), markup=False, highlight=False, emoji=False)
    for case in CASES:
        middles = {name: found.middle(case, name) for name in found.about}
        largest = max((m for m in middles.values() if m is not None), default=0.0)
        better = "more is better" if case.tokens else "less is better"
        console.print(Text(f"{case.title}, {case.unit} ({better})", style="bold"))
        for name, middle in middles.items():
            if middle is None:
                continue
            bar = "█" * max(1, round(_BAR * middle / largest))
            style = "green" if name == "chatkv" else "bright_black"
            console.print(Text.assemble((f"{name:>14} ", ""), (bar, style), f" {_short(middle)}"))
        console.print()
    write_whole(path, console.export_svg(title="python -m benchmarks engines"))
