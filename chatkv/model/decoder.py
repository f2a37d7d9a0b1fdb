"""The Llama-shape decoder over paged KV: plain functions on tensors, one pass for a mixed batch.

No ``nn.Module``: a module call costs about as much as a decode-sized product of a small model.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F

from chatkv.attention.base import AttentionBackend
from chatkv.model.checkpoint import DecoderWeights, LayerWeights, Linear, load_weights
from chatkv.model.config import DecoderConfig
from chatkv.model.rope import inverse_frequencies, rotate, rotation


class Decoder:
    """Weights and the forward pass. Stateless between calls: all KV lives in the tensor it is given."""

    def __init__(self, config: DecoderConfig, weights: DecoderWeights) -> None:
        self.config = config
        self.weights = weights
        self.dtype = weights.embedding.dtype
        self.device = weights.embedding.device
        self._inverse = inverse_frequencies(config.rope, config.head_dim).to(self.device)

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
        c, w = self.config, self.weights
        cos, sin = rotation(positions, self._inverse, self.dtype)
        kv_rows = _kv_rows(slots, kv.shape[3])
        h = F.embedding(token_ids, w.embedding)
        last = c.num_layers - 1
        for index, layer in enumerate(w.layers):
            attended = self._attend(layer, h, cos, sin, kv_rows, kv[index], backend)
            if index == last:
                # Nothing after the last attention mixes rows: only the wanted ones go on.
                h, attended = h.index_select(0, logit_rows), attended.index_select(0, logit_rows)
            h = h + _linear(attended, layer.output)
            gate, up = _linear(self._norm(h, layer.mlp_norm), layer.gate_up).chunk(2, dim=-1)
            h = h + _linear(F.silu(gate) * up, layer.down)
        return F.linear(self._norm(h, w.final_norm), w.head).float()

    def _attend(
        self,
        layer: LayerWeights,
        h: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        kv_rows: torch.Tensor,
        kv: torch.Tensor,
        backend: AttentionBackend,
    ) -> torch.Tensor:
        c = self.config
        heads, kv_heads = c.num_heads, c.num_kv_heads
        qkv = _linear(self._norm(h, layer.attn_norm), layer.qkv).view(
            len(h), heads + 2 * kv_heads, c.head_dim
        )
        qk, v = qkv[:, : heads + kv_heads], qkv[:, heads + kv_heads :]
        if layer.q_norm is not None and layer.k_norm is not None:
            qk = torch.cat(
                (self._norm(qk[:, :heads], layer.q_norm), self._norm(qk[:, heads:], layer.k_norm)), dim=1
            )
        qk = rotate(qk, cos, sin)
        new = torch.stack((qk[:, heads:], v)).view(2 * len(h), kv_heads * c.head_dim)
        kv.view(-1, kv_heads * c.head_dim).index_copy_(0, kv_rows, new)
        return backend.run(qk[:, :heads], kv).reshape(len(h), heads * c.head_dim)

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self.config.rms_norm_eps)


def _linear(x: torch.Tensor, linear: Linear) -> torch.Tensor:
    return F.linear(x, linear.weight, linear.bias)


def _kv_rows(slots: torch.Tensor, block_size: int) -> torch.Tensor:
    """Rows of a layer's KV seen as ``[blocks * 2 * block_size, …]``: K of every slot, then V."""
    block, offset = slots // block_size, slots % block_size
    k_rows = block * (2 * block_size) + offset
    return torch.cat((k_rows, k_rows + block_size))


def copy_slots(kv: torch.Tensor, source: int, target: int, count: int) -> None:
    """Copy the K/V of the first ``count`` slots of block ``source`` into ``target``, in all layers."""
    with torch.inference_mode():
        kv[:, target, :, :count] = kv[:, source, :, :count]
