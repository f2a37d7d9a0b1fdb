"""Paged attention on CUDA by FlashInfer's kernels (arXiv 2501.01005).

Two wrappers share one float workspace: *decode* for steps in which every request has one new token, *prefill*
for all other steps, with the decoding requests among them. One plan serves all layers of a step.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import torch

from chatkv.attention.base import AttentionBackend, PagedBatch
from chatkv.attention.flashinfer.rules import Heads, Limits
from chatkv.attention.flashinfer.wrappers import Wrappers, use


class FlashInferBackend(AttentionBackend):
    """For a model's ``heads`` on one CUDA device; ask ``rules.refusal`` first."""

    name = "flashinfer"

    def __init__(
        self, library: ModuleType, heads: Heads, device: torch.device, limits: Limits | None = None
    ) -> None:
        """``library``: the imported package. Compiles its kernels where they aren't yet: minutes, once."""
        self._wrappers = Wrappers(library, heads, device, limits or Limits())
        self._prefill = self._wrappers.prefill()
        self._decode = self._wrappers.decode()
        self._planned = self._decode
        self.no_graphs = ""
        """Why ``graph`` is not to be used; empty where it is."""
        self._batch: PagedBatch | None = None
        self._checked_blocks = 0

    def plan(self, batch: PagedBatch) -> None:
        """Take a step's batch; raises ValueError where it is malformed.

        The upper bound of block ids is checked by the first ``run``, which knows the KV.
        """
        self._batch = None
        batch.validate(int(batch.kv_indices.max(initial=-1)) + 1)
        if (batch.q_lens == 1).all():
            self._planned = self._decode
            self._wrappers.plan_decode(self._decode, batch)
        else:
            self._planned = self._prefill
            self._wrappers.plan_prefill(self._prefill, batch)
        self._checked_blocks = 0
        self._batch = batch

    def run(self, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """Attention of one layer; see the base class. Raises ValueError without a plan or a fitting shape."""
        if self._batch is None:
            raise ValueError("plan a batch before run")
        if kv.shape[0] != self._checked_blocks:
            self._batch.validate_run(q, kv)
            self._checked_blocks = kv.shape[0]
        return self._wrappers.run(self._planned, q, kv)

    def graph(self, rows: int, pages: int) -> GraphDecode:
        """Decode with fixed addresses for steps of at most ``rows`` requests, to be captured.

        ``pages``: the block ids that all rows may have together.
        """
        return GraphDecode(self._wrappers, rows, pages)


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
