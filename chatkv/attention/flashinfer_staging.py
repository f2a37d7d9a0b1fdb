"""A step's metadata in host memory that the GPU reads by itself, while the next step is prepared.

Copies from pinned memory run behind the caller's back. Memory that one of them still reads must not be
written: two projects had wrong answers of it (mini-sglang#103, rtp-llm#1254). The library has a pinned
buffer of its own, which each ``plan`` writes, so a plan also waits for the copies of the plan before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.host_room import Event, HostRoom

SETS = 2


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
    room: HostRoom
    event: Event | None = None


class Staging:
    """``stage`` a batch, ``settle`` right before the plan, ``sent`` right behind it."""

    def __init__(
        self, device: torch.device, *, pin: bool | None = None, event: Callable[[], Event] | None = None
    ) -> None:
        """On a CPU nothing is pinned, and copies are over when they return. ``pin``, ``event``: for tests."""
        on_gpu = device.type == "cuda"
        self._device = device
        pinned = on_gpu if pin is None else pin
        self._new_event = event if event is not None or not on_gpu else torch.cuda.Event
        self._sets = [_Set(HostRoom(pinned)) for _ in range(SETS)]
        self._turn = 0

    def stage(self, batch: PagedBatch) -> Staged:
        """Copy ``batch`` into the set whose last use lies furthest back."""
        self._turn = (self._turn + 1) % SETS
        own = self._sets[self._turn]
        if own.event is not None:
            own.event.synchronize()
        return Staged(
            qo_indptr=_put(own, "qo_indptr", batch.qo_indptr),
            kv_indptr=_put(own, "kv_indptr", batch.kv_indptr),
            # Block ids alone are read by kernels only: a plan that gets them from the host would wait.
            kv_indices=_put(own, "kv_indices", batch.kv_indices).to(self._device, non_blocking=True),
            last_page_len=_put(own, "last_page_len", batch.last_page_len),
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


def _put(own: _Set, name: str, array: npt.NDArray[np.int32]) -> torch.Tensor:
    view = own.room.take(name, len(array), torch.int32)
    view.numpy()[...] = array
    return view
