"""A step's metadata in host memory that the GPU reads by itself, while the next step is prepared.

Copies from pinned memory run behind the caller's back. Memory that one of them still reads must not be
written: two projects had wrong answers of it (mini-sglang#103, rtp-llm#1254). The library has a pinned
buffer of its own, which each ``plan`` writes, so a plan also waits for the copies of the plan before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from chatkv.attention.base import PagedBatch

SETS = 2


class Event(Protocol):
    """A mark in the device's queue of work, as ``torch.cuda.Event`` is."""

    def record(self) -> None:
        """Put the mark behind all that was asked for so far."""

    def synchronize(self) -> None:
        """Wait until the device has passed the mark."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A batch's arrays in int32: indptrs and lengths on the host, block ids on the device."""

    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    last_page_len: torch.Tensor
    longest: int
    """The most new tokens of a request."""


@dataclass(slots=True)
class _Set:
    event: Event | None = None
    room: dict[str, torch.Tensor] = field(default_factory=dict)


class Staging:
    """``stage`` a batch, ``settle`` right before the plan, ``sent`` right behind it."""

    def __init__(
        self, device: torch.device, *, pin: bool | None = None, event: Callable[[], Event] | None = None
    ) -> None:
        """On a CPU nothing is pinned, and copies are over when they return. ``pin``, ``event``: for tests."""
        on_gpu = device.type == "cuda"
        self._device = device
        self._pin = on_gpu if pin is None else pin
        self._new_event = event if event is not None or not on_gpu else torch.cuda.Event
        self._sets = [_Set() for _ in range(SETS)]
        self._turn = 0

    def stage(self, batch: PagedBatch) -> Staged:
        """Copy ``batch`` into the set whose last use lies furthest back."""
        self._turn = (self._turn + 1) % SETS
        own = self._sets[self._turn]
        if own.event is not None:
            own.event.synchronize()
        return Staged(
            qo_indptr=self._put(own, "qo_indptr", batch.qo_indptr),
            kv_indptr=self._put(own, "kv_indptr", batch.kv_indptr),
            # Block ids alone are read by kernels only: a plan that gets them from the host would wait.
            kv_indices=self._put(own, "kv_indices", batch.kv_indices).to(self._device, non_blocking=True),
            last_page_len=self._put(own, "last_page_len", batch.last_page_len),
            longest=int(batch.q_lens.max(initial=0)),
        )

    def settle(self) -> None:
        """Wait for the copies of the plan before: they may still read the library's own pinned buffer."""
        before = self._sets[self._turn - 1].event
        if before is not None:
            before.synchronize()

    def sent(self) -> None:
        """All copies of this batch have been asked for."""
        if self._new_event is not None:
            own = self._sets[self._turn]
            own.event = own.event or self._new_event()
            own.event.record()

    def _put(self, own: _Set, name: str, array: npt.NDArray[np.int32]) -> torch.Tensor:
        room = own.room.get(name)
        if room is None or len(room) < len(array):
            size = 1 << max(len(array) - 1, 15).bit_length()
            room = own.room[name] = torch.empty(size, dtype=torch.int32, pin_memory=self._pin)
        view = room[: len(array)]
        view.numpy()[...] = array
        return view
