"""Options with a few values, for every command that has them: their words, and what tab offers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from chatkv.cli.completion import models, one_of, some_of, themes
from chatkv.engine.config import ATTENTIONS, CACHES, DTYPES, GRAINS, EngineConfig
from chatkv.errors import UsageError
from chatkv.kvcache.eviction import STRATEGIES
from chatkv.scheduler.names import ADMISSIONS, POLICIES
from chatkv.text import nearest

MEMORY = "Memory"
QUEUE = "Queue"
MODEL = EngineConfig().model
MOST = 1 << 24
"""Of anything that is counted and has no bound of its own: what is typed beyond it is a mistake."""


def choice(values: Iterable[str], help: str, panel: str | None = None) -> Any:
    """An option that takes one of ``values``; another one is refused before anything else is looked at."""
    known = tuple(values)
    return typer.Option(
        metavar="|".join(known),
        help=help,
        rich_help_panel=panel,
        autocompletion=one_of(known),
        callback=_checks(lambda option, value: _one(option, value, known)),
    )


def _list(values: Iterable[str], help: str) -> Any:
    known = tuple(values)
    return typer.Option(
        metavar=",".join(known),
        help=help,
        autocompletion=some_of(known),
        callback=_checks(lambda option, value: _some(option, value, known)),
    )


def _checks(check: Callable[[str, Any], object]) -> Callable[..., Any]:
    """A callback for typer that calls ``check`` with the option's name and what it was given."""

    def callback(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
        if value is not None and not context.resilient_parsing:
            check(parameter.opts[0], value)
        return value

    return callback


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


def check_folder(option: str, path: Path) -> None:
    """Can it be a folder? Raises UsageError that names ``option``."""
    # Not Path's own: they raise where there is no such user, and where a name is too long.
    place = os.path.expanduser(path)
    if os.path.exists(place) and not os.path.isdir(place):
        raise UsageError(f"{option} takes a folder, and {path} is none")


def check_host(option: str, host: str) -> None:
    """Can it be a host's name or address? Raises UsageError that names ``option``."""
    if re.fullmatch(r"[^\s/:]+|[\da-fA-F:.]+(%[^\s/:]+)?", host) is None:
        raise UsageError(f"{option} takes a host's name or address alone, like 127.0.0.1, not {host!r}")


def check_theme(name: str) -> None:
    """Is there such a theme? Raises UsageError."""
    from chatkv.tui.themes import load_themes, theme_names

    known = theme_names()
    if name not in known:
        faults = load_themes()[1]
        # A file that bears the name is what is meant.
        if own := [problem for problem in faults if problem.path.stem == name]:
            raise UsageError(f"--theme {name!r} can't be had: {own[0]}")
        others = "".join(f"; {problem}" for problem in faults)
        raise UsageError(
            f"--theme {name!r} is not known{nearest(name, known)}; there are {', '.join(known)}{others}"
        )


Model = Annotated[
    str,
    typer.Option(
        help="A name from 'chatkv models', a Hugging Face folder or org/name, or a GGUF file.",
        autocompletion=models,
    ),
]
folder = _checks(check_folder)
"""Callbacks for options that take one."""
host = _checks(check_host)
Theme = Annotated[
    str | None,
    typer.Option(
        help="Colours; 'chatkv themes' lists them.",
        autocompletion=themes,
        callback=_checks(lambda option, value: check_theme(value)),
    ),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="auto|cpu|cuda[:N]",
        help="Where it computes; auto: on a GPU, if there is one.",
        autocompletion=one_of(("auto", "cpu", "cuda")),
        callback=_checks(lambda option, value: EngineConfig(device=value).validate()),
    ),
]
Dtype = Annotated[str, choice(DTYPES, "What the model computes in.")]
Attention = Annotated[str, choice(ATTENTIONS, "What computes attention.")]
SHAPES = ("tiny", "7b", "8b")
"""As in ``model/shapes.py``, which imports torch."""
Shape = Annotated[str | None, choice(SHAPES, "Random weights of a size instead: Llama 2's 7b, Llama 3's 8b.")]
CudaGraphs = Annotated[
    bool,
    typer.Option("--cuda-graphs/--no-cuda-graphs", help="FlashInfer's decode steps as CUDA graphs."),
]
Cache = Annotated[str, choice(CACHES, "How prefixes are reused.", MEMORY)]
Eviction = Annotated[str, choice(STRATEGIES, "Which leaf is evicted first.", MEMORY)]
EvictGrain = Annotated[str, choice(GRAINS, "Evict whole nodes, or block by block.", MEMORY)]
Policy = Annotated[str, choice(POLICIES, "Which waiting request goes first.", QUEUE)]
Admission = Annotated[
    str, choice(ADMISSIONS, "Room kept for running answers: none, or a part as in SGLang.", QUEUE)
]
JsonOut = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON ('-': stdout).")
]
Caches = Annotated[str, _list(CACHES, "Which caches to compare, in turn.")]
Policies = Annotated[str, _list(POLICIES, "Which policies to compare, in turn.")]
