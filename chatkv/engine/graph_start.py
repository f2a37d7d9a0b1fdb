"""Whether decode steps are CUDA graphs, and why not."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from chatkv.attention.base import AttentionBackend
from chatkv.attention.flashinfer.backend import FlashInferBackend
from chatkv.engine.config import EngineConfig, EngineError
from chatkv.engine.cuda_graph import Graph
from chatkv.engine.graphs import DecodeGraphs
from chatkv.engine.runner import Runner

logger = logging.getLogger(__name__)


def wants_graphs(config: EngineConfig, backend: AttentionBackend, device: torch.device) -> bool:
    """Whether an engine like this one captures its decode steps; its runner needs a spare block then."""
    flash = isinstance(backend, FlashInferBackend) and not backend.no_graphs
    return config.cuda_graphs and device.type == "cuda" and flash


def why_none(config: EngineConfig, backend: AttentionBackend) -> str | None:
    """What a person who wants graphs should know where this backend can't have any; else None."""
    if not config.cuda_graphs or not isinstance(backend, FlashInferBackend) or not backend.no_graphs:
        return None
    return f"without CUDA graphs, because {backend.no_graphs}"


def start_graphs(
    runner: Runner,
    new_graph: Callable[[], Graph],
    *,
    requests: int,
    context: int,
    progress: Callable[[str, float | None], None],
    tell: Callable[[str], None] = lambda line: None,
) -> str:
    """Give ``runner``, which has a spare block, its graphs; returns what a person should know of it.

    What can't be captured is computed without: an engine that is slower is better than none. ``tell``: hears
    of what can't be replayed later on. Raises EngineError where the attempt left the device unusable.
    """
    assert isinstance(runner.backend, FlashInferBackend)
    device = runner.decoder.device
    graphs = DecodeGraphs(
        runner.decoder, runner.backend, runner.kv, new_graph, requests=requests, context=context, tell=tell
    )
    try:
        graphs.capture(progress)
        _settle(device)
    except Exception as error:
        logger.exception("decode steps could not be captured")
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        try:
            _settle(device)
        except RuntimeError:
            raise EngineError(
                f"capturing CUDA graphs broke {device} ({said}): use --no-cuda-graphs"
            ) from None
        return f"without CUDA graphs, because a decode step can't be captured: {said}"
    runner.graphs = graphs
    return f"steps in which all requests decode, at most {graphs.rows}, are replayed as CUDA graphs"


def _settle(device: torch.device) -> None:
    """Wait for the device; raises RuntimeError where it has gone wrong."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
