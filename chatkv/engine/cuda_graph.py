"""One CUDA graph: work on the device that is recorded once and replayed at the same addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

WARM_UPS = 2
"""Runs before a capture: whatever libraries set up at first use must not happen while one goes on."""


class Graph(Protocol):
    """Work on the device that is recorded once and done again at the same addresses."""

    def capture(self, call: Callable[[], None]) -> None:
        """Record what ``call`` does; it may be called several times, and the last one counts."""

    def replay(self) -> None:
        """Do it again, behind all that was asked for so far."""


class CudaGraphs:
    """Makes CUDA graphs that share one memory pool: they must not run at the same time."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self) -> Graph:
        """A new one, to be captured."""
        return _CudaGraph(self._stream, self._pool)


class _CudaGraph:
    def __init__(self, stream: torch.cuda.Stream, pool: Any) -> None:
        self._stream, self._pool = stream, pool
        self._graph = torch.cuda.CUDAGraph()

    def capture(self, call: Callable[[], None]) -> None:
        """See ``Graph``."""
        before = torch.cuda.current_stream(self._stream.device)
        # Around it all: a capture that fails does not give the stream back.
        with torch.cuda.stream(before):
            self._stream.wait_stream(before)
            with torch.cuda.stream(self._stream):
                for _ in range(WARM_UPS):
                    call()
            before.wait_stream(self._stream)
            # Another thread's use of the GPU is no fault of this capture.
            with torch.cuda.graph(
                self._graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ):
                call()

    def replay(self) -> None:
        """See ``Graph``."""
        self._graph.replay()
