"""The engine on the caller's own thread, a step at a time: for measurements, and to watch each step."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from chatkv.engine.config import EngineConfig
from chatkv.engine.loading import load
from chatkv.engine.messages import Batch, GenerateRequest
from chatkv.engine.outbox import Outbox
from chatkv.model.store import Progress


class InlineEngine:
    """Requests go in by ``submit``; ``batches`` steps while there is work, and yields what each step told.

    One thread only. ``core`` is open to whoever reads figures that no event tells.
    """

    def __init__(self, config: EngineConfig, progress: Progress = lambda stage, fraction: None) -> None:
        """Load what ``config`` names. Raises ChatkvError with one line that says what to do."""
        self._outbox = Outbox()
        self.core, self.ready = load(config, self._outbox, progress)
        self._ids = itertools.count(1)

    def submit(self, request: GenerateRequest) -> int:
        """Queue a request (also between two batches); returns its id, or the first of its ``n``."""
        ids = [next(self._ids) for _ in range(request.answers)]
        self.core.add(ids[0], request, time.perf_counter())
        return ids[0]

    def batches(self) -> Iterator[Batch]:
        """Step until nothing is left to do. What happened before the first step comes with its batch."""
        while self.core.has_work:
            self.core.step()
            if (batch := self._outbox.drain()) is not None:
                yield batch
        # A request that was turned down leaves no work, but its end is to be heard of.
        if (batch := self._outbox.drain()) is not None:
            yield batch
