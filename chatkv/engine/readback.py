"""What the host gets to see of a step: of some rows all logits, of the others the likeliest id.

A row of logits is half a megabyte where a vocabulary is large, so only the rows that someone looks at leave
the device. They go into pinned memory, which a GPU writes by itself and which each step uses again; all of
a step's copies are waited for once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from chatkv.attention.flashinfer.wrappers import Event, HostRoom
from chatkv.engine.graphs import Rows, pick


class Readback:
    """Reads the rows of steps on one device, one step after another, on the current stream."""

    def __init__(
        self, device: torch.device, *, pin: bool | None = None, event: Callable[[], Event] | None = None
    ) -> None:
        """On a CPU nothing is copied. ``pin``, ``event``: for tests."""
        on_gpu = device.type == "cuda"
        self._device = device
        self._new_event = event if event is not None or not on_gpu else torch.cuda.Event
        self._done: Event | None = None
        self._room = HostRoom(on_gpu if pin is None else pin)

    def read(self, rows: Rows, whole: Sequence[bool] | None = None) -> Sequence[torch.Tensor]:
        """One tensor on the CPU a row: fp32 ``[vocab]`` where ``whole``, else the likeliest id (int64 [],
        -1 where a logit is not a number). ``whole`` None: all rows. Valid until the next call.
        """
        logits = rows.logits
        if not len(logits):
            return ()
        wanted = range(len(logits)) if whole is None else [at for at, each in enumerate(whole) if each]
        if len(wanted) == len(logits):
            found = self._take("logits", logits)
            self._wait()
            return found.unbind()
        ids = self._take("ids", pick(logits) if rows.picks is None else rows.picks)
        if not wanted:
            self._wait()
            return ids.unbind()
        found = self._take("logits", logits.index_select(0, self._put("index", torch.tensor(wanted))))
        self._wait()
        both = list(ids.unbind())
        for at, row in zip(wanted, found.unbind(), strict=True):
            both[at] = row
        return both

    # --- inside -------------------------------------------------------------------------------------

    def _take(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """``tensor`` on the CPU; its numbers are there once ``_wait`` has returned."""
        if self._new_event is None:
            return tensor.cpu()
        return self._host(name, tensor).copy_(tensor, non_blocking=True)

    def _put(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """``tensor``, which is on the CPU, on the device."""
        if self._new_event is None:
            return tensor.to(self._device)
        # What it is copied from is written again after the next ``_wait`` at the earliest.
        return self._host(name, tensor).copy_(tensor).to(self._device, non_blocking=True)

    def _host(self, name: str, like: torch.Tensor) -> torch.Tensor:
        return self._room.take(name, like.numel(), like.dtype).view(like.shape)

    def _wait(self) -> None:
        if self._new_event is not None:
            self._done = self._done or self._new_event()
            self._done.record()
            self._done.synchronize()
