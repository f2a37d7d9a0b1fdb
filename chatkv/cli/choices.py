"""Options with a few values, for every command that has them: their words, and what tab offers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from chatkv.cli.completion import models, one_of, some_of, themes
from chatkv.engine.config import ATTENTIONS, CACHES, DTYPES, GRAINS, EngineConfig
from chatkv.kvcache.eviction import STRATEGIES
from chatkv.scheduler.names import ADMISSIONS, POLICIES

MEMORY = "Memory"
QUEUE = "Queue"
MODEL = EngineConfig().model


def _choice(values: Iterable[str], help: str, panel: str | None = None) -> Any:
    known = tuple(values)
    return typer.Option(
        metavar="|".join(known), help=help, rich_help_panel=panel, autocompletion=one_of(known)
    )


def _list(values: Iterable[str], help: str) -> Any:
    known = tuple(values)
    return typer.Option(metavar=",".join(known), help=help, autocompletion=some_of(known))


Model = Annotated[
    str,
    typer.Option(
        help="A name from 'chatkv models', a Hugging Face folder or org/name, or a GGUF file.",
        autocompletion=models,
    ),
]
Theme = Annotated[
    str | None, typer.Option(help="Colours; 'chatkv themes' lists them.", autocompletion=themes)
]
Device = Annotated[
    str,
    typer.Option(
        metavar="auto|cpu|cuda[:N]",
        help="Where it computes; auto: on a GPU, if there is one.",
        autocompletion=one_of(("auto", "cpu", "cuda")),
    ),
]
Dtype = Annotated[str, _choice(DTYPES, "What the model computes in.")]
Attention = Annotated[str, _choice(ATTENTIONS, "What computes attention.")]
SHAPES = ("tiny", "7b", "8b")
"""As in ``model/shapes.py``, which imports torch."""
Shape = Annotated[
    str | None, _choice(SHAPES, "Random weights of a size instead: Llama 2's 7b, Llama 3's 8b.")
]
CudaGraphs = Annotated[
    bool,
    typer.Option("--cuda-graphs/--no-cuda-graphs", help="FlashInfer's decode steps as CUDA graphs."),
]
Cache = Annotated[str, _choice(CACHES, "How prefixes are reused.", MEMORY)]
Eviction = Annotated[str, _choice(STRATEGIES, "Which leaf is evicted first.", MEMORY)]
EvictGrain = Annotated[str, _choice(GRAINS, "Evict whole nodes, or block by block.", MEMORY)]
Policy = Annotated[str, _choice(POLICIES, "Which waiting request goes first.", QUEUE)]
Admission = Annotated[
    str, _choice(ADMISSIONS, "Room kept for running answers: none, or a part as in SGLang.", QUEUE)
]
JsonOut = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON ('-': stdout).")
]
Caches = Annotated[str, _list(CACHES, "Which caches to compare, in turn.")]
Policies = Annotated[str, _list(POLICIES, "Which policies to compare, in turn.")]
