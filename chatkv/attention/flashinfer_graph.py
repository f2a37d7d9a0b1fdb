"""FlashInfer's decode with fixed addresses, so that a CUDA graph around it can be captured and replayed.

A graph has a fixed number of rows; a step of fewer is padded. A padded row repeats the last indptr, so that
there is no block to read, and has a last_page_len of 1, as in vLLM. The step writes its K and V all the same:
the caller gives it a slot in a block that belongs to no request.

Each step is planned, before each replay too: how a context is split over the GPU is in the plan, and a stale
one hangs or reads what is freed (rtp-llm#1084). Plans and replays go to the same stream.
"""

from __future__ import annotations

import numpy as np
import torch

from chatkv.attention.base import AttentionBackend, PagedBatch
from chatkv.attention.flashinfer_wrappers import Wrappers, use

BUCKETS = (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64)
"""The numbers of rows that graphs are captured for."""


class GraphDecode(AttentionBackend):
    """``plan`` any decode step of up to ``rows`` requests; capture ``run`` with exactly ``rows``."""

    name = "flashinfer"

    def __init__(self, wrappers: Wrappers, rows: int, pages: int) -> None:
        """``pages``: the block ids that all rows may have together, at least one a row."""
        if rows < 1 or pages < rows:
            raise ValueError(f"want at least one row and one page for each, got {rows} and {pages}")
        self.rows, self.pages = rows, pages
        self._wrappers = wrappers
        use(wrappers.device)
        # The graph reads these; each plan writes into them.
        self._wrapper = wrappers.graph_decode(
            indptr=torch.zeros(rows + 1, dtype=torch.int32, device=wrappers.device),
            indices=torch.zeros(pages, dtype=torch.int32, device=wrappers.device),
            last=torch.ones(rows, dtype=torch.int32, device=wrappers.device),
        )
        self._planned = False

    def fits(self, batch: PagedBatch) -> bool:
        """Whether ``plan`` would take this step: only decoding requests, not too many, not too long."""
        return (
            0 < len(batch.last_page_len) <= self.rows
            and len(batch.kv_indices) <= self.pages
            and bool((batch.q_lens == 1).all())
        )

    def plan(self, batch: PagedBatch) -> None:
        """Take a step's batch; raises ValueError where it is malformed or doesn't fit."""
        self._planned = False
        batch.validate(int(batch.kv_indices.max(initial=-1)) + 1)
        if not self.fits(batch):
            raise ValueError(
                f"a graph for {self.rows} decoding requests with {self.pages} blocks can't take "
                f"{len(batch.last_page_len)} with {len(batch.kv_indices)} and {batch.q_lens.max(initial=0)} "
                "new tokens in one"
            )
        self._wrappers.plan_decode(self._wrapper, padded(batch, self.rows), fixed=True)
        self._planned = True

    def run(self, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """Attention of one layer over all rows, padded ones included; what those give means nothing.

        ``q``: ``[rows, heads, head_dim]``. Raises ValueError without a plan or a fitting shape. A replay
        doesn't come here: that block ids lie within the KV is the caller's to check.
        """
        if not self._planned:
            raise ValueError("plan a batch before run")
        if len(q) != self.rows:
            raise ValueError(f"a graph for {self.rows} rows got {len(q)}")
        return self._wrappers.run(self._wrapper, q, kv)


def padded(batch: PagedBatch, rows: int) -> PagedBatch:
    """``batch``, all of whose requests decode, with empty requests behind them up to ``rows``."""
    missing = rows - len(batch.last_page_len)
    return PagedBatch(
        qo_indptr=np.arange(rows + 1, dtype=np.int32),
        kv_indptr=np.pad(batch.kv_indptr, (0, missing), mode="edge"),
        kv_indices=batch.kv_indices,
        last_page_len=np.pad(batch.last_page_len, (0, missing), constant_values=1),
        block_size=batch.block_size,
    )


def bucket(requests: int) -> int | None:
    """The rows of the smallest graph that ``requests`` fit in; None where there is none."""
    return next((rows for rows in BUCKETS if rows >= requests), None)
