"""From "FlashInfer, please" to a backend that has proved itself on this device, or to the reason why not."""

from __future__ import annotations

import logging
import math
import re

import numpy as np
import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.flashinfer_backend import FlashInferBackend
from chatkv.attention.flashinfer_library import FlashInferError, load
from chatkv.attention.flashinfer_rules import Heads, Limits, refusal
from chatkv.attention.torch_backend import TorchBackend

logger = logging.getLogger(__name__)

TOLERANCE = 0.04
"""Of outputs about 1 in size: bf16 keeps 8 bits, and scores, weights and results are each rounded."""
_TRIALS = {
    "a prefill step": [(5, 5), (1, 40), (70, 90)],
    "a decode step": [(1, 1), (1, 75), (1, 33)],
}
"""(new, in all) tokens of each request."""


def start(
    heads: Heads, device: torch.device, capability: tuple[int, int], limits: Limits
) -> FlashInferBackend:
    """A backend whose answers to two small steps were right on ``device``.

    Where only decode with fixed addresses fails, its ``no_graphs`` says why. Compiles what isn't compiled
    yet, which takes minutes, once. Raises FlashInferError with the reason where nothing of it can be had.
    """
    problem = refusal(heads, capability)
    if problem is not None:
        raise FlashInferError(problem)
    library = load()
    try:
        backend = FlashInferBackend(library, heads, device, limits)
        problem = trial(backend, heads, device, limits.block_size)
    except Exception as error:
        # Not a fault of chatkv: into the log, where there is one, and never onto a terminal.
        logger.info("FlashInfer could not be started", exc_info=True)
        raise FlashInferError(f"its kernels can't be compiled or run here: {telling(error)}") from error
    if problem is not None:
        raise FlashInferError(problem)
    try:
        problem = graph_trial(backend, heads, device, limits.block_size)
    except Exception as error:
        logger.info("a graph's step could not be tried", exc_info=True)
        problem = telling(error)
        try:
            torch.zeros(1, device=device).cpu()
        except RuntimeError as fault:  # nothing can be computed on it any more
            raise FlashInferError(f"a graph's step broke the device: {telling(fault)}") from error
    if problem is not None:
        backend.no_graphs = f"FlashInfer can't decode for them: {problem}"
    return backend


def telling(error: Exception) -> str:
    """The line of an error that says most: a failed build has a compiler's whole output in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "Ninja build failed" not in str(error):
        return lines[0] if lines else type(error).__name__
    faults = (line for line in lines if re.search(r"\b(error|fatal|not found)\b", line, re.IGNORECASE))
    return f"the build failed: {next(faults, lines[-1])}"


def trial(backend: FlashInferBackend, heads: Heads, device: torch.device, block_size: int) -> str | None:
    """What is wrong with the backend's numbers, compared with torch's in fp32; None where nothing is."""
    for step, lens in _TRIALS.items():
        batch, q, kv = _tensors(lens, heads, device, block_size)
        backend.plan(batch)
        if (problem := _wrong(step, backend.run(q, kv), batch, q, kv)) is not None:
            return problem
    return None


def graph_trial(
    backend: FlashInferBackend, heads: Heads, device: torch.device, block_size: int
) -> str | None:
    """As ``trial``, for a decode step with fixed addresses and a padded row; nothing is captured."""
    step = "a decode step"
    batch, q, kv = _tensors(_TRIALS[step], heads, device, block_size)
    requests = len(q)
    graph = backend.graph(requests + 1, 2 * len(batch.kv_indices))
    graph.plan(batch)
    found = graph.run(torch.cat((q, q[:1])), kv)[:requests]
    return _wrong(f"{step} of a graph", found, batch, q, kv)


def _tensors(
    lens: list[tuple[int, int]], heads: Heads, device: torch.device, block_size: int
) -> tuple[PagedBatch, torch.Tensor, torch.Tensor]:
    """A batch, its queries and a KV, the same each time."""
    batch, blocks = _batch(lens, block_size)
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(int(batch.qo_indptr[-1]), heads.heads, heads.head_dim, generator=generator)
    kv = torch.randn(blocks, 2, block_size, heads.kv_heads, heads.head_dim, generator=generator)
    return batch, q.to(heads.dtype).to(device), kv.to(heads.dtype).to(device)


def _wrong(
    step: str, found: torch.Tensor, batch: PagedBatch, q: torch.Tensor, kv: torch.Tensor
) -> str | None:
    reference = TorchBackend(q.device)
    reference.plan(batch)
    off = float((found.float() - reference.run(q.float(), kv.float())).abs().max())
    if not off <= TOLERANCE:  # nan is wrong, too
        return f"its numbers are wrong here: {step} was off by {off:.2g} from torch's"
    return None


def _batch(lens: list[tuple[int, int]], block_size: int) -> tuple[PagedBatch, int]:
    """A batch over blocks that lie in reverse order, and how many there are."""
    pages = [math.ceil(total / block_size) for _, total in lens]
    blocks = sum(pages)
    batch = PagedBatch(
        qo_indptr=np.cumsum([0, *(new for new, _ in lens)]).astype(np.int32),
        kv_indptr=np.cumsum([0, *pages]).astype(np.int32),
        kv_indices=np.arange(blocks, dtype=np.int32)[::-1].copy(),
        last_page_len=np.array([(total - 1) % block_size + 1 for _, total in lens], dtype=np.int32),
        block_size=block_size,
    )
    return batch, blocks
