"""What a decoder does between its matrix products: norms, rotation, writing K and V, the gate.

One interface, two ways: torch's operators anywhere, and the compiled kernels on a CPU
(``chatkv/model/native_operators.py``), which take a small model's decode step from 5 ms to 4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F

from chatkv.model.checkpoint import LayerWeights
from chatkv.model.config import DecoderConfig
from chatkv.model.rope import inverse_frequencies, rotate, rotation


class Operators(ABC):
    """``begin`` once a step, then the others a layer at a time. Activations are ``[rows, …]``."""

    name: str
    """As shown to people."""

    @abstractmethod
    def begin(self, positions: torch.Tensor, slots: torch.Tensor, block_size: int) -> None:
        """A step of ``rows`` tokens: int64 ``positions`` and ``slots`` (``block * block_size + offset``)."""

    @abstractmethod
    def add_norm(self, h: torch.Tensor, delta: torch.Tensor | None, weight: torch.Tensor) -> torch.Tensor:
        """``h += delta`` (in place) unless None; returns RMSNorm of it, weighted."""

    @abstractmethod
    def place(self, qkv: torch.Tensor, layer: LayerWeights, kv: torch.Tensor) -> torch.Tensor:
        """Norm (where the model does) and rotate q and k, write k and v into the layer's ``kv``.

        ``qkv``: ``[rows, (heads + 2 * kv_heads) * head_dim]``, not to be used afterwards; ``kv``:
        ``[blocks, 2, block_size, kv_heads, head_dim]``. Returns q ``[rows, heads, head_dim]``.
        """

    @abstractmethod
    def gated(self, gate_up: torch.Tensor) -> torch.Tensor:
        """``silu(gate) * up`` of ``[rows, 2 * width]``, gate first."""


class TorchOperators(Operators):
    """The reference, on any device."""

    name = "torch"

    def __init__(self, config: DecoderConfig, dtype: torch.dtype, device: torch.device) -> None:
        self._config = config
        self._dtype = dtype
        self._inverse = inverse_frequencies(config.rope, config.head_dim).to(device)

    def begin(self, positions: torch.Tensor, slots: torch.Tensor, block_size: int) -> None:
        """See ``Operators``."""
        self._cos, self._sin = rotation(positions, self._inverse, self._dtype)
        block, offset = slots // block_size, slots % block_size
        k_rows = block * (2 * block_size) + offset
        # Rows of a layer's KV seen as [blocks * 2 * block_size, …]: K of every slot, then V.
        self._kv_rows = torch.cat((k_rows, k_rows + block_size))

    def add_norm(self, h: torch.Tensor, delta: torch.Tensor | None, weight: torch.Tensor) -> torch.Tensor:
        """See ``Operators``."""
        if delta is not None:
            h += delta
        return self._norm(h, weight)

    def place(self, qkv: torch.Tensor, layer: LayerWeights, kv: torch.Tensor) -> torch.Tensor:
        """See ``Operators``."""
        c, rows = self._config, len(qkv)
        heads, kv_heads = c.num_heads, c.num_kv_heads
        qkv = qkv.view(rows, heads + 2 * kv_heads, c.head_dim)
        qk, v = qkv[:, : heads + kv_heads], qkv[:, heads + kv_heads :]
        if layer.q_norm is not None and layer.k_norm is not None:
            qk = torch.cat(
                (self._norm(qk[:, :heads], layer.q_norm), self._norm(qk[:, heads:], layer.k_norm)), dim=1
            )
        qk = rotate(qk, self._cos, self._sin)
        new = torch.stack((qk[:, heads:], v)).view(2 * rows, kv_heads * c.head_dim)
        kv.view(-1, kv_heads * c.head_dim).index_copy_(0, self._kv_rows, new)
        return qk[:, :heads]

    def gated(self, gate_up: torch.Tensor) -> torch.Tensor:
        """See ``Operators``."""
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, weight.shape, weight, self._config.rms_norm_eps)
