"""Options that several commands have, and options with a few values: their words, and what tab offers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from chatkv.cli.completion import one_of, some_of
from chatkv.cli.options import annotated, check_folder, checks
from chatkv.engine.config import CACHES, MEMORY, MOST, EngineConfig
from chatkv.errors import UsageError
from chatkv.scheduler.names import POLICIES
from chatkv.text import nearest

__all__ = ["MEMORY", "MOST"]

MODEL = EngineConfig().model


def choice(values: Iterable[str], help: str, panel: str | None = None) -> Any:
    """An option that takes one of ``values``; another one is refused before anything else is looked at."""
    known = tuple(values)
    return typer.Option(
        metavar="|".join(known),
        help=help,
        rich_help_panel=panel,
        autocompletion=one_of(known),
        callback=checks(lambda option, value: _one(option, value, known)),
    )


def _list(values: Iterable[str], help: str) -> Any:
    known = tuple(values)
    return typer.Option(
        metavar=",".join(known),
        help=help,
        autocompletion=some_of(known),
        callback=checks(lambda option, value: _some(option, value, known)),
    )


def _one(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{option} must be one of {', '.join(known)}, got {value!r}{nearest(value, known)}")


def _some(option: str, value: str, known: tuple[str, ...]) -> None:
    names = [name.strip() for name in value.split(",")]
    if unknown := [name for name in names if name not in known]:
        what = f"{', '.join(known)} separated by commas"
        raise UsageError(f"{option} takes {what}, not {unknown[0]!r}{nearest(unknown[0], known)}")
    if len(set(names)) < len(names):
        raise UsageError(f"{option} names one twice: {value}")


folder = checks(check_folder)
"""A callback for options that take one."""
Model = Annotated[str, annotated(EngineConfig, "model")]
Device = Annotated[str, annotated(EngineConfig, "device")]
Dtype = Annotated[str, annotated(EngineConfig, "dtype")]
Attention = Annotated[str, annotated(EngineConfig, "attention")]
Threads = Annotated[int | None, annotated(EngineConfig, "threads")]
CudaGraphs = Annotated[bool, annotated(EngineConfig, "cuda_graphs")]
BlockSize = Annotated[int, annotated(EngineConfig, "block_size")]
NumBlocks = Annotated[int | None, annotated(EngineConfig, "num_blocks")]
Cache = Annotated[str, annotated(EngineConfig, "cache")]
Eviction = Annotated[str, annotated(EngineConfig, "eviction")]
EvictGrain = Annotated[str, annotated(EngineConfig, "evict_grain")]
Policy = Annotated[str, annotated(EngineConfig, "policy")]
Admission = Annotated[str, annotated(EngineConfig, "admission")]
JsonOut = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON ('-': stdout).")
]
Caches = Annotated[str, _list(CACHES, "Which caches to compare, in turn.")]
Policies = Annotated[str, _list(POLICIES, "Which policies to compare, in turn.")]
