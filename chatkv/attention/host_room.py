"""Host memory that a GPU reads and writes by itself, and the marks that say when it has done so."""

from __future__ import annotations

from typing import Protocol

import torch


class Event(Protocol):
    """A mark in the device's queue of work, as ``torch.cuda.Event`` is."""

    def record(self) -> None:
        """Put the mark behind all that was asked for so far."""

    def synchronize(self) -> None:
        """Wait until the device has passed the mark."""


class HostRoom:
    """Pieces of memory by name, used again step after step; one that is too small is replaced by a larger."""

    def __init__(self, pin: bool) -> None:
        """``pin``: in memory that is never moved, which a GPU can reach."""
        self._pin = pin
        self._pieces: dict[str, torch.Tensor] = {}

    def take(self, name: str, count: int, dtype: torch.dtype) -> torch.Tensor:
        """``[count]``; what was written there under this name before may still be in it."""
        piece = self._pieces.get(name)
        if piece is None or len(piece) < count:
            size = 1 << max(count - 1, 15).bit_length()
            piece = self._pieces[name] = torch.empty(size, dtype=dtype, pin_memory=self._pin)
        return piece[:count]
