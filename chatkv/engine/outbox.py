"""What one step has to tell: collected in order, handed out as one ``Batch``."""

from __future__ import annotations

import time

from chatkv.engine.messages import Batch, Delta, Finished
from chatkv.kvcache.events import Event


class Outbox:
    """``events.append`` is the sink of the engine's ``EventLog``."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.deltas: list[Delta] = []
        self.finished: list[Finished] = []

    def drain(self) -> Batch | None:
        """Everything since the last call; None where nothing happened."""
        if not (self.events or self.deltas or self.finished):
            return None
        batch = Batch(time.time(), tuple(self.events), tuple(self.deltas), tuple(self.finished))
        self.events.clear()
        self.deltas.clear()
        self.finished.clear()
        return batch
