"""``python -m benchmarks gpu``: what a device decodes in a second, and how near its bound."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from chatkv.cli import choices
from chatkv.cli.choices import choice
from chatkv.cli.defaults import naming_the_file
from chatkv.cli.models import check_model
from chatkv.cli.output import check_target, print_table, progress_bar, write_json
from chatkv.engine.config import EngineConfig
from chatkv.errors import UsageError

_DEFAULT = EngineConfig()
SHAPES = ("tiny", "7b", "8b")
"""As in ``shapes.py``, which imports torch."""


def gpu(
    context: typer.Context,
    model: choices.Model = _DEFAULT.model,
    shape: Annotated[
        str | None, choice(SHAPES, "Random weights of a size instead: Llama 2's 7b, Llama 3's 8b.")
    ] = None,
    batch: Annotated[
        str, typer.Option(metavar="N,…", help="How many requests decode at once, a measurement each.")
    ] = "1,8,64",
    kv_tokens: Annotated[
        int,
        typer.Option("--context", min=1, max=choices.MOST, help="Tokens of each when its decoding begins."),
    ] = 512,
    steps: Annotated[int, typer.Option(min=1, max=choices.MOST, help="Decode steps that are timed.")] = 64,
    prompt: Annotated[
        int, typer.Option(min=1, max=choices.MOST, help="Tokens of the prompts that are timed.")
    ] = 1024,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="How many such prompts.")] = 3,
    device: choices.Device = "cuda",
    dtype: choices.Dtype = _DEFAULT.dtype,
    attention: choices.Attention = _DEFAULT.attention,
    cuda_graphs: choices.CudaGraphs = True,
    threads: choices.Threads = None,
    block_size: choices.BlockSize = _DEFAULT.block_size,
    max_batch_tokens: Annotated[int, typer.Option(min=1, max=choices.MOST)] = _DEFAULT.max_batch_tokens,
    json_out: choices.JsonOut = None,
) -> None:
    """Decode and prefill of one device: tok/s, TTFT, share of the memory's bandwidth, the engine's own time.

    With CUDA graphs, decoding is measured with and without them, and its attention beside FlashInfer's alone.
    """
    from benchmarks.gpu.speed import Speed

    speed = Speed(_batches(batch), kv_tokens, steps, prompt, rounds).validate()
    config = EngineConfig(
        model=model,
        device=device,
        dtype=dtype,
        attention=attention,
        cuda_graphs=cuda_graphs,
        threads=threads,
        block_size=block_size,
        max_batch_tokens=max_batch_tokens,
    ).validate()
    if max_batch_tokens < (least := max(speed.batches) + block_size):
        raise UsageError(
            f"--batch {batch} needs --max-batch-tokens of at least {least}, got {max_batch_tokens}"
        )
    if shape is None:
        with naming_the_file(context, "model"):
            check_model(model)
    check_target(json_out)
    from benchmarks.gpu.speed_run import measure
    from chatkv.engine.devices import pick

    pick(device, [])  # what can't be had is said before anything is fetched
    with progress_bar() as advance:
        found = measure(config, shape, speed, advance)
    if write_json(json_out, found):
        show(found)


HEADS = (
    "decode",
    ">tok/s",
    ">step ms",
    ">roof",
    ">own ms",
    ">outside ms",
    ">attn ms",
    ">alone ms",
    ">times",
)
MEANT = {
    ">roof": ("roof", "the part of the roofline that a step reaches"),
    ">own ms": ("own", "of a step, what the device did not compute in"),
    ">outside ms": ("outside", "of a step, all but the model's forward"),
    ">times": ("attn, alone", "FlashInfer's kernels in a step, and with nothing between; times: the ratio"),
}


def show(found: dict[str, Any]) -> None:
    """The tables: prompts, and a row for each way to decode. Columns without a figure are left out."""
    rows = [decode_row(row) for row in found["decode"]]
    kept = [at for at in range(len(HEADS)) if any(row[at] for row in rows)]
    meant = [MEANT[HEADS[at]] for at in kept if HEADS[at] in MEANT]
    print_table(("what", "here"), [*about(found), *meant])
    print()
    print_table([HEADS[at] for at in kept], [[row[at] for at in kept] for row in rows])


def about(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What was measured, and the figures of prompts."""
    speed = found["speed"]
    return [
        ("model", f"{found['model']}, {found['dtype']}, {found['weight_bytes'] / 1e9:.3g} GB read a step"),
        ("device", f"{found['device']}, attention {found['attention']}"),
        *(("note", note) for note in found["notes"]),
        ("copy bandwidth", f"{found['copy_bandwidth'] / 1e9:,.1f} GB/s (the roofline)"),
        (f"prefill of {speed['prompt']}", f"{found['prefill_tokens_per_s']:,.0f} tok/s"),
        ("TTFT cold", f"{1000 * found['ttft_cold_s']:.1f} ms"),
        ("TTFT cached", f"{1000 * found['ttft_cached_s']:.1f} ms"),
    ]


def decode_row(row: dict[str, Any]) -> list[str]:
    """A line of the table."""
    return [
        f"batch {row['batch']}" + (", graph" if row["graphs"] else ""),
        f"{row['tokens_per_s']:,.1f}",
        f"{1000 * row['step_s']:.3f}",
        f"{row['roofline']:.0%}",
        _ms(row["overhead_s"]),
        _ms(row["outside_s"]),
        _ms(row["attention_s"]),
        _ms(row["alone_s"]),
        "" if row["times_alone"] is None else f"{row['times_alone']:.2f}",
    ]


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.3f}"


def _batches(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= len(part) <= 4 and int(part) for part in parts):
        raise UsageError(f"--batch takes whole numbers from 1 to 9999 separated by commas, not {text!r}")
    return tuple(dict.fromkeys(map(int, parts)))
