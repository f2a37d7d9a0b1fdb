"""Matrix products with weights, in the forms a CPU reads fastest.

A product of few rows is bound by reading the weights: 4-bit ones are a quarter of bf16's bytes. One of
many rows is bound by arithmetic, which is fastest in bf16. So a packed linear keeps both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
import torch.nn.functional as F

from chatkv.model.mapped import give_back

GROUP = 32
"""Input columns that share a scale and a zero (GGUF's Q4_1 and Q4_0 blocks)."""
PACKED_ROWS = 16
"""Up to this many rows the packed form is the faster one (a small model's products, ms: 4 rows 4.8 against
bf16's 19, 32 rows 23 against 20)."""

WIDENED_ROWS = 4
"""From so many rows on emulated bf16 is slower than widening to fp32 (a small model's layers with AVX2, ms: 4
rows 40 against 35, 32 rows 199 against 61)."""
WIDENED_AT_ONCE = 1 << 21
"""Weights that are widened at a time: all of a small model's layer, a part of its head."""


class Linear:
    """``x @ weight.T + bias``; ``bias`` ``[out]`` or None."""

    __slots__ = ("_mapped", "_weight", "bias")

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None = None, *, mapped: bool = False
    ) -> None:
        """``mapped``: the weight is a file's pages."""
        self._weight: torch.Tensor | Callable[[], torch.Tensor] = weight
        self._mapped = mapped
        self.bias = bias

    @property
    def weight(self) -> torch.Tensor:
        """``[out, in]``."""
        return self._weight if isinstance(self._weight, torch.Tensor) else self._weight()

    def hand_over(self, make: Callable[[], torch.Tensor]) -> None:
        """Let go of the weight: who has it in another form makes it with ``make`` when it is asked for."""
        if isinstance(self._weight, torch.Tensor) and self._mapped:
            give_back(self._weight)
        self._weight = make

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """``x``: ``[rows, in]``; returns ``[rows, out]`` in the dtype of ``x``."""
        return F.linear(x, self.weight, self.bias)


class WidenedLinear(Linear):
    """bf16 weights and ``x``, multiplied in fp32: for CPUs that have no instructions for bf16 and emulate it.

    Weights are widened each time, in pieces that stay in the cache: next to a product of some rows that is
    little, and it needs no second copy of the weights.
    """

    __slots__ = ()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """As ``Linear``."""
        if len(x) < WIDENED_ROWS:
            return super().__call__(x)
        rows, columns = self.weight.shape
        wide, out = x.float(), x.new_empty((len(x), rows))
        some = max(1, WIDENED_AT_ONCE // columns)
        for first in range(0, rows, some):
            part = slice(first, first + some)
            bias = None if self.bias is None else self.bias[part].float()
            out[:, part] = F.linear(wide, self.weight[part].float(), bias)
        return out


class PackedLinear(Linear, ABC):
    """The packed form for few rows, beside the one it was made from for many; ``x`` is bf16."""

    __slots__ = ("many", "packed", "scales")

    packed: torch.Tensor
    scales: torch.Tensor

    def __init__(self, many: Linear) -> None:
        super().__init__(many.weight, many.bias)
        self.many = many

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """As ``Linear``."""
        if len(x) > PACKED_ROWS:
            return self.many(x)
        out = self._product(x)
        return out if self.bias is None else out.add_(self.bias)

    @abstractmethod
    def _product(self, x: torch.Tensor) -> torch.Tensor:
        """``x @ weight.T`` with the packed weights."""


class Int4Linear(PackedLinear):
    """4-bit weights with a scale and a zero for each ``GROUP`` columns."""

    __slots__ = ()

    def __init__(self, linear: Linear, codes: torch.Tensor, scales: torch.Tensor) -> None:
        """``codes``: int32 ``[out, in]``, 0…15; ``scales``: ``[in / GROUP, out, 2]``, scale and the value of
        code 8.
        """
        super().__init__(linear)
        self.packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
        self.scales = scales.to(torch.bfloat16).contiguous()

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.packed, GROUP, self.scales)
        return out


class Int8Linear(PackedLinear):
    """8-bit weights with one scale a row."""

    __slots__ = ()

    def __init__(self, linear: Linear, codes: torch.Tensor, scales: torch.Tensor) -> None:
        """``codes``: int8 ``[out, in]``; ``scales``: ``[out]``."""
        super().__init__(linear)
        self.packed = codes
        self.scales = scales.to(torch.bfloat16)

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.aten._weight_int8pack_mm(x, self.packed, self.scales)
        return out
