"""The Llama-shape decoder over paged KV: plain functions on tensors, one pass for a mixed batch.

No ``nn.Module``: a module call costs about as much as a decode-sized product of a small model.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F

from chatkv.attention.base import AttentionBackend
from chatkv.model.checkpoint import DecoderWeights, load_weights
from chatkv.model.config import DecoderConfig
from chatkv.model.fused import FusedStep
from chatkv.model.operators import Operators, TorchOperators
from chatkv.model.wide import WideStep


class Decoder:
    """Weights and the forward pass. Stateless between calls: all KV lives in the tensor it is given."""

    def __init__(
        self,
        config: DecoderConfig,
        weights: DecoderWeights,
        operators: Operators | None = None,
        fused: FusedStep | None = None,
        wide: WideStep | None = None,
    ) -> None:
        """``fused``: for forwards of few rows, with the same weights in packed form; ``wide``: for those of
        many.
        """
        self.config = config
        self.weights = weights
        self.dtype = weights.embedding.dtype
        self.device = weights.embedding.device
        self.fused = fused
        self.wide = wide
        self.operators = operators or TorchOperators(config, self.dtype, self.device)

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype, device: str = "cpu") -> Decoder:
        """Load a Hugging Face folder in ``dtype`` (bf16 or fp32); raises ModelError."""
        config = DecoderConfig.load(folder)
        with torch.inference_mode():
            return cls(config, load_weights(folder, config, dtype, device))

    def new_kv(self, num_blocks: int, block_size: int) -> torch.Tensor:
        """Zeroed KV ``[layers, blocks, 2, block_size, kv_heads, head_dim]`` in the model's dtype.

        Zeroed, because attention may read (and mask) slots that were never written.
        """
        c = self.config
        shape = (c.num_layers, num_blocks, 2, block_size, c.num_kv_heads, c.head_dim)
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def bytes_per_block(self, block_size: int) -> int:
        """Bytes of K and V of one block over all layers."""
        c = self.config
        return c.num_layers * 2 * block_size * c.num_kv_heads * c.head_dim * self.dtype.itemsize

    @torch.inference_mode()
    def forward(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        slots: torch.Tensor,
        kv: torch.Tensor,
        backend: AttentionBackend,
        logit_rows: torch.Tensor,
    ) -> torch.Tensor:
        """One step for a batch whose requests' new tokens stand one after another.

        ``token_ids``, ``positions``, ``slots`` (``block * block_size + offset``): int64 ``[N]``;
        ``kv``: as ``new_kv`` gave it; ``backend``: planned for this batch; ``logit_rows``: int64
        ``[R]``, the rows of the batch whose logits are wanted. Each layer writes the K/V of the new
        tokens into ``kv`` before it attends. Returns fp32 logits ``[R, vocab]``.
        """
        compiled: FusedStep | WideStep | None = self.fused
        if self.fused is not None and len(token_ids) > self.fused.max_rows:
            compiled = self.wide
        if compiled is not None and self._fits(token_ids, kv, backend, logit_rows):
            assert backend.batch is not None
            return compiled.run(token_ids, positions, slots, kv, backend.batch, logit_rows)
        w, do = self.weights, self.operators
        do.begin(positions, slots, kv.shape[3])
        h, delta = F.embedding(token_ids, w.embedding), None
        for index, layer in enumerate(w.layers):
            qkv = layer.qkv(do.add_norm(h, delta, layer.attn_norm))
            attended = backend.run(do.place(qkv, layer, kv[index]), kv[index]).flatten(1)
            if index == len(w.layers) - 1:
                if not len(logit_rows):
                    return torch.empty((0, len(w.embedding)), dtype=torch.float32, device=self.device)
                # Nothing after the last attention mixes rows: only the wanted ones go on.
                h, attended = h.index_select(0, logit_rows), attended.index_select(0, logit_rows)
            gate_up = layer.gate_up(do.add_norm(h, layer.output(attended), layer.mlp_norm))
            delta = layer.down(do.gated(gate_up))
        return w.head(do.add_norm(h, delta, w.final_norm)).float()

    def _fits(
        self, token_ids: torch.Tensor, kv: torch.Tensor, backend: AttentionBackend, logit_rows: torch.Tensor
    ) -> bool:
        """Whether a compiled forward can do this; raises ValueError where the batch doesn't fit ``kv``."""
        batch = backend.batch
        if batch is None or not kv.is_contiguous():
            return False
        if len(token_ids) != batch.qo_indptr[-1] or kv.shape[3] != batch.block_size:
            raise ValueError(
                f"planned {batch.qo_indptr[-1]} rows and block size {batch.block_size}, "
                f"got {len(token_ids)} rows and block size {kv.shape[3]}"
            )
        if batch.kv_indices.max() >= kv.shape[1]:
            raise ValueError(f"kv_indices must lie in 0..{kv.shape[1] - 1}")
        return bool((logit_rows.diff() > 0).all())


def copy_slots(kv: torch.Tensor, source: int, target: int, count: int) -> None:
    """Copy the K/V of the first ``count`` slots of block ``source`` into ``target``, in all layers."""
    with torch.inference_mode():
        kv[:, target, :, :count] = kv[:, source, :, :count]
