"""``chatkv doctor``: what this machine computes with, and what it could not have."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Annotated

import typer

from chatkv.cli import choices
from chatkv.errors import UsageError

if TYPE_CHECKING:
    from chatkv.engine.compute_cpu import Auto


def doctor(
    context: typer.Context,
    compile: Annotated[
        bool, typer.Option("--compile", help="Compile FlashInfer's kernels for a model now, and try them.")
    ] = False,
    model: choices.Model = choices.MODEL,
    device: choices.Device = "auto",
) -> None:
    """Say what the engine takes on this machine, what is missing, and where things are kept."""
    if compile:
        from chatkv.cli.doctor_compile import compile_kernels
        from chatkv.cli.models import check_model

        check_model(model)
        compile_kernels(model, device)
        return
    sources = (context.get_parameter_source(name) for name in ("model", "device"))
    if any(source is not None and source.name == "COMMANDLINE" for source in sources):
        raise UsageError("--model and --device say what --compile compiles: add it")
    import torch

    from chatkv import __version__
    from chatkv.cli.doctor_gpu import gpu_rows, unwritable
    from chatkv.cli.output import print_table
    from chatkv.engine.compute_cpu import auto_forms, no_step
    from chatkv.engine.loading import cores
    from chatkv.engine.sizing import default_kv_memory, free_memory
    from chatkv.model.catalog import catalog, is_cached
    from chatkv.model.quantise import unusable
    from chatkv.native.library import kernels, why_not
    from chatkv.paths import cache_dir, config_dir, data_dir

    native = kernels(torch.float32)
    packed = {form: unusable(form) for form in ("int4", "int8")}
    free = free_memory()
    here = [entry.name for entry in catalog() if is_cached(entry.name)]
    rows = [
        ("chatkv", __version__),
        ("Python, torch", f"{platform.python_version()}, {torch.__version__}"),
        ("CPU", f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"),
        ("threads", f"{cores()} (--threads changes it)"),
        ("native kernels", why_not() if native is None else f"yes, {native.variant}"),
        ("attention and norms by", "torch" if native is None else "native kernels"),
        *gpu_rows(),
        ("--dtype auto", _auto(auto_forms(no_step()))),
        *((f"{form} products", problem or "yes") for form, problem in packed.items()),
        (
            "memory free",
            f"{free >> 20:,} MiB; the KV pool takes {default_kv_memory(free) >> 20:,}",
        ),
        ("models here", ", ".join(here) or "none yet: 'chatkv fetch' gets the default one"),
        ("models in", f"{cache_dir() / 'models'}{unwritable(cache_dir())}"),
        ("sessions in", f"{data_dir() / 'sessions'}{unwritable(data_dir())}"),
        ("your themes in", str(config_dir() / "themes")),
    ]
    print_table(("what", "here"), [(what, str(said)) for what, said in rows])


def _auto(taken: Auto) -> str:
    if taken.four_bit == taken.other:
        return f"{taken.other}: {taken.why}"
    return f"{taken.four_bit} for checkpoints that were 4-bit, {taken.other} for others: {taken.why}"
