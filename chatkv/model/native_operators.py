"""The operators between matrix products as compiled kernels, for CPUs (see ``chatkv/native``)."""

from __future__ import annotations

import torch

from chatkv.model.checkpoint import LayerWeights
from chatkv.model.config import DecoderConfig
from chatkv.model.operators import Operators
from chatkv.model.rope import inverse_frequencies
from chatkv.native.library import Kernels

FIRST_POSITIONS = 1024
"""The table of angles starts with this many positions and doubles when a longer context comes."""


class NativeOperators(Operators):
    """Computed in fp32, rounded once when stored; all tensors on the CPU, in the kernels' dtype."""

    name = "native"

    def __init__(self, config: DecoderConfig, kernels: Kernels) -> None:
        self._config = config
        self.kernels = kernels
        self._inverse = inverse_frequencies(config.rope, config.head_dim)
        self._angles = self._table(FIRST_POSITIONS)

    def begin(self, positions: torch.Tensor, slots: torch.Tensor, block_size: int) -> None:
        """See ``Operators``."""
        self.angles(int(positions.max()) + 1)
        # Kept, so that their memory stays: kernels get addresses.
        self._positions, self._slots, self._block_size = (
            positions.contiguous(),
            slots.contiguous(),
            block_size,
        )

    def angles(self, positions: int) -> torch.Tensor:
        """fp32 ``[positions or more, head_dim]``: cosines, then sines."""
        if positions > len(self._angles):
            self._angles = self._table(max(positions, 2 * len(self._angles)))
        return self._angles

    def add_norm(self, h: torch.Tensor, delta: torch.Tensor | None, weight: torch.Tensor) -> torch.Tensor:
        """See ``Operators``."""
        out = torch.empty_like(h)
        self.kernels.add_norm(
            h.data_ptr(),
            None if delta is None else delta.data_ptr(),
            weight.data_ptr(),
            out.data_ptr(),
            h.shape[0],
            h.shape[1],
            self._config.rms_norm_eps,
        )
        return out

    def place(self, qkv: torch.Tensor, layer: LayerWeights, kv: torch.Tensor) -> torch.Tensor:
        """See ``Operators``."""
        c = self._config
        q = torch.empty((len(qkv), c.num_heads, c.head_dim), dtype=qkv.dtype)
        self.kernels.place(
            qkv.data_ptr(),
            self._angles.data_ptr(),
            self._positions.data_ptr(),
            self._slots.data_ptr(),
            None if layer.q_norm is None else layer.q_norm.data_ptr(),
            None if layer.k_norm is None else layer.k_norm.data_ptr(),
            kv.data_ptr(),
            q.data_ptr(),
            len(qkv),
            c.num_heads,
            c.num_kv_heads,
            c.head_dim,
            self._block_size,
            c.rms_norm_eps,
        )
        return q

    def gated(self, gate_up: torch.Tensor) -> torch.Tensor:
        """See ``Operators``."""
        out = gate_up.new_empty((len(gate_up), gate_up.shape[1] // 2))
        self.kernels.gated(gate_up.data_ptr(), out.data_ptr(), out.shape[0], out.shape[1])
        return out

    def _table(self, positions: int) -> torch.Tensor:
        angles = torch.arange(positions, dtype=torch.float32)[:, None] * self._inverse
        return torch.cat((angles.cos(), angles.sin()), dim=-1).contiguous()
