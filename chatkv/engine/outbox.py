"""What one step has to tell: collected in order, handed out as one ``Batch``."""

from __future__ import annotations

import time

from chatkv.engine.messages import Batch, ContextNear, Delta, EngineStats, Finished, Verified
from chatkv.kvcache.events import Event


class Outbox:
    """``events.append`` is the sink of the engine's ``EventLog``."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.deltas: list[Delta] = []
        self.finished: list[Finished] = []
        self.near: list[ContextNear] = []
        self.verified: list[Verified] = []
        self.notes: list[str] = []
        self.stats: EngineStats | None = None

    def drain(self) -> Batch | None:
        """Everything since the last call; None where nothing happened."""
        told = self.events or self.deltas or self.finished or self.near or self.verified or self.notes
        if not told and self.stats is None:
            return None
        batch = Batch(
            time.time(),
            tuple(self.events),
            tuple(self.deltas),
            tuple(self.finished),
            tuple(self.near),
            tuple(self.verified),
            self.stats,
            tuple(self.notes),
        )
        self.events.clear()
        self.deltas.clear()
        self.finished.clear()
        self.near.clear()
        self.verified.clear()
        self.notes.clear()
        self.stats = None
        return batch
