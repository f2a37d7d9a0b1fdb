"""Paged attention on CUDA by FlashInfer's kernels (arXiv 2501.01005).

Two wrappers share one float workspace: *decode* for steps in which every request has one new token, *prefill*
for all other steps, with the decoding requests among them. One plan serves all layers of a step.
"""

from __future__ import annotations

from types import ModuleType

import torch

from chatkv.attention.base import AttentionBackend, PagedBatch
from chatkv.attention.flashinfer_graph import GraphDecode
from chatkv.attention.flashinfer_rules import Heads, Limits
from chatkv.attention.flashinfer_wrappers import Wrappers


class FlashInferBackend(AttentionBackend):
    """For a model's ``heads`` on one CUDA device; ask ``flashinfer_rules.refusal`` first."""

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
