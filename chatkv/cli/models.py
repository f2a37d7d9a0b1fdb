"""``chatkv models`` and ``chatkv fetch``: which models there are, and getting one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from chatkv.cli import completion
from chatkv.cli.defaults import naming_the_file
from chatkv.engine.config import EngineConfig


def models() -> None:
    """List the models known by name, and which of them are on this machine."""
    from chatkv.cli.output import print_table
    from chatkv.model.catalog import catalog, is_cached

    rows = [
        (
            entry.name + (" (default)" if entry.is_default else ""),
            entry.description,
            entry.size,
            entry.licence,
            "yes" if is_cached(entry.name) else "no",
        )
        for entry in catalog()
    ]
    print_table(("model", "what it is", ">download", "licence", "here"), rows)
    print("\n--model also takes a Hugging Face folder, a hub name (org/name) and a .gguf file.")


def fetch(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="A name from 'chatkv models', a hub name or a GGUF file.", autocompletion=completion.models
        ),
    ] = EngineConfig().model,
) -> None:
    """Fetch a model and make it ready, so that the chat opens at once."""
    from chatkv.model.catalog import resolve

    with naming_the_file(context, "model"):
        folder = _with_bar(model) if sys.stderr.isatty() else resolve(model, _StageLines())
    print(f"{model} is ready in {folder}")


class _StageLines:
    """Progress for a log: one line a stage."""

    def __init__(self) -> None:
        self.last = ""

    def __call__(self, stage: str, fraction: float | None) -> None:
        if stage != self.last:
            self.last = stage
            print(f"{stage} ...", file=sys.stderr, flush=True)


def _with_bar(model: str) -> Path:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from chatkv.model.catalog import resolve

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    # On stderr, and gone at the end: what stays is the line on stdout.
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("looking for the model", total=None)

        def show(stage: str, fraction: float | None) -> None:
            total = None if fraction is None else 1.0
            bar.update(task, description=stage, total=total, completed=fraction or 0.0)

        return resolve(model, show)


def check_model(name: str) -> None:
    """Tell at once what is wrong with a name that can't be a model, before a screen opens.

    What needs fetching, converting or reading is left to the engine.

    Raises:
        ModelError: no such model, file or folder, or a folder that lacks files.
    """
    from chatkv.model.catalog import catalog, resolve

    path = Path(os.path.expanduser(name))
    if any(entry.name == name for entry in catalog()):
        return
    if os.path.isdir(path):
        if (path / "config.json").is_file() and any(path.glob("*.safetensors")):
            return
    elif os.path.isfile(path):
        if path.suffix.lower() == ".gguf":
            return
    elif name.count("/") == 1 and name[0] not in "./~" and path.suffix.lower() != ".gguf":
        return  # org/name: only the hub knows.
    resolve(name, lambda stage, fraction: None)
