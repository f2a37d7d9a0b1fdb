"""A CUDA graph without CUDA: kernels are written down at the capture and done again at the same addresses.

As on a GPU, a replay runs no Python of the captured step: what depended on a number of the host, a new
tensor or a result read back, is as it was at the capture, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
WAITS = (aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.scalar_tensor, aten.lift_fresh)
"""Operators that read a number or a size back, or bring a number of the host in by a copy of its own."""
SCALAR_WHERE = (aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
"""``where`` makes a tensor of its number, on the host. (In inference mode this isn't seen in parts.)"""
Kernel = Callable[[], Any]


class Tape(TorchDispatchMode):
    """Writes down every operator, and the tensors that its results lie in."""

    recording: Tape | None = None

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[tuple[Kernel, list[torch.Tensor]]] = []

    def __enter__(self) -> Tape:
        Tape.recording = self
        return super().__enter__()  # type: ignore[no-any-return]

    def __exit__(self, *error: Any) -> None:
        Tape.recording = None
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in WAITS or func in SCALAR_WHERE:
            raise RuntimeError(f"{func} waits for the device, which a capture can't")
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.kernels.append((lambda: func(*args, **kwargs), tensors(result)))
        return result


def opaque(kernel: Callable[..., None]) -> Callable[..., None]:
    """``kernel``, which writes into its arguments, as one entry on the tape, read anew at each replay."""

    def call(*args: Any) -> None:
        tape = Tape.recording
        with _disable_current_modes():
            kernel(*args)
        if tape is not None:
            tape.kernels.append((lambda: kernel(*args), []))

    return call


class FakeGraph:
    """See the module. ``fails``: raised by the capture."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.replays = 0
        self._fails = fails
        self._tape = Tape()

    def capture(self, call: Callable[[], None]) -> None:
        call()  # warm-up
        if self._fails is not None:
            raise self._fails
        with self._tape:
            call()
        self.replays = -1  # the first one is the start's own, which compares

    def replay(self) -> None:
        self.replays += 1
        with torch.inference_mode():
            for kernel, results in self._tape.kernels:
                for new, kept in zip(tensors(kernel()), results, strict=False):
                    if new.data_ptr() != kept.data_ptr():
                        kept.copy_(new)


class Graphs:
    """Makes them; ``fail_at``: the capture that fails, counted from 0."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.made: list[FakeGraph] = []
        self._fail_at = fail_at

    def __call__(self) -> FakeGraph:
        fails = RuntimeError("operation not permitted when stream is capturing\nmore")
        self.made.append(FakeGraph(fails if len(self.made) == self._fail_at else None))
        return self.made[-1]

    @property
    def replays(self) -> int:
        return sum(graph.replays for graph in self.made)


def tensors(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
