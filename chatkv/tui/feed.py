"""The picture's source: the engine's events folded into a mirror, live or held still."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from time import perf_counter

from chatkv.engine.stats import EngineStats
from chatkv.insight.mirror import Mirror
from chatkv.kvcache.events import Event
from chatkv.scheduler import events as sched

KEPT_RECENT = 2_000
GHOST_S = 8.0
"""How long what was evicted stays to be seen."""
FAINT_S = GHOST_S / 2
"""When it starts to look faint."""
COPIED_AT_ONCE = 2_000
"""Nodes of a tree that a pause copies before the next frame."""
HELD_BACK = 20_000
"""Events that a larger tree does not go on with while it is paused, before it is copied after all."""
SLICE_S = 0.02
"""How long the screen waits at most for what was held back; the rest comes with later frames."""
_STEP = 100
"""Events between two looks at the clock."""


class Feed:
    """Owns the mirror. While frozen, a copy of it is shown and the mirror goes on; nothing is lost.

    Copying a large tree takes longer than a person waits for a key: it is shown as it is, and what comes
    is held back until they go on, or until it becomes too much to keep. Then it is copied bit by bit, and
    what was held back is folded bit by bit: whoever draws calls ``go_on`` with every frame.
    """

    def __init__(self) -> None:
        self._live = Mirror()
        self._shown: Mirror | None = None
        """What is shown while frozen: a copy, or the mirror itself while ``_held`` is kept from it."""
        self._held: deque[tuple[Sequence[Event], float]] = deque()
        """Batches that the mirror has not seen yet, and their wall times, in order."""
        self._held_events = 0
        self._copying: Iterator[Mirror | None] | None = None
        self.dirty = True
        """The mirror changed since the last frame; whoever draws resets it."""
        self.faint: frozenset[int] = frozenset()
        """Keys in ``Mirror.ghosts`` of those soon to go."""
        self._recent: list[Event] = []
        self._notices: list[str] = []
        self._latest = 0
        self.stats: EngineStats | None = None
        """The engine's figures as last told (while frozen: as they were); None before."""
        self._stats: EngineStats | None = None
        self.evictions_a_minute = 0
        """In the minute before the last ``fade``, of the picture shown; ``eviction_bars``: part by part."""
        self.eviction_bars: tuple[int, ...] = ()

    @property
    def mirror(self) -> Mirror:
        """What is to be shown: the live mirror, or how it was when the picture was frozen."""
        return self._live if self._shown is None else self._shown

    @property
    def frozen(self) -> bool:
        """True while the picture is held still."""
        return self._shown is not None

    @property
    def latest(self) -> int:
        """``seq`` of the newest event, shown or not."""
        return self._latest

    def take(self, events: Sequence[Event], wall: float) -> None:
        """Events of one batch, in order."""
        if not events:
            return
        self._latest = events[-1].seq
        self._notices += [event.reason for event in events if isinstance(event, sched.PinRefused)]
        if self._shown is not self._live and not self._held:
            self._fold(events, wall)
            return
        self._held.append((events, wall))
        self._held_events += len(events)

    def go_on(self, seconds: float = SLICE_S) -> None:
        """Do so much of what waits: the copy that a long pause needs, then the events that were held back."""
        until = perf_counter() + seconds
        if self._shown is self._live and self._held_events > HELD_BACK:
            copying = self._copying = self._copying or self._live.copying()
            while self._shown is self._live and perf_counter() < until:
                if (twin := next(copying)) is not None:
                    self._shown, self._copying = twin, None
                    self.dirty = True
        while self._held and self._shown is not self._live and perf_counter() < until:
            events, wall = self._held.popleft()
            if len(events) > _STEP:
                self._held.appendleft((events[_STEP:], wall))
                events = events[:_STEP]
            self._held_events -= len(events)
            self._fold(events, wall)

    def take_stats(self, stats: EngineStats) -> None:
        """The engine's figures of now."""
        self._stats = stats
        if not self.frozen:
            self.stats = stats
            self.dirty = True

    def freeze(self, frozen: bool) -> None:
        """Hold the picture still, or let it catch up."""
        if frozen != self.frozen:
            small = len(self._live.nodes) <= COPIED_AT_ONCE
            self._shown = None if not frozen else self._live.copy() if small else self._live
            self._copying = None
            self.go_on()
            self.stats = self._stats
            self.dirty = True

    def stand(self, session: str, request: int) -> None:
        """``session`` shows the answer that ``request`` made. A picture held still stays as it is."""
        if self._shown is not self._live and self._live.stand(session, request):
            self.dirty = True

    def fade(self, now: float) -> None:
        """It is ``now`` (``time.time()``): what was evicted looks faint after a while, then goes; old
        evictions no longer count for the minute.
        """
        if self._shown is self._live:
            return
        ghosts = self._live.ghosts
        if ghosts and self._live.fade(now - GHOST_S):
            self.dirty = True
        if self.frozen:
            return
        lately = self._live.lately
        evictions = lately.evictions(now), lately.eviction_bars(now)
        if evictions != (self.evictions_a_minute, self.eviction_bars):
            self.evictions_a_minute, self.eviction_bars = evictions
            self.dirty = True
        if not (ghosts or self.faint):
            return
        old = ((key, ghost.wall) for key, ghost in ghosts.items())
        faint = frozenset(key for key, wall in old if wall is not None and wall < now - FAINT_S)
        if faint != self.faint:
            self.faint = faint
            self.dirty = True

    def take_recent(self) -> list[Event]:
        """The events folded since the last call (the newest ``KEPT_RECENT``); none while frozen."""
        if self.frozen:
            return []
        recent, self._recent = self._recent, []
        return recent

    def take_notices(self) -> list[str]:
        """What a person has to be told since the last call, frozen or not."""
        notices, self._notices = self._notices, []
        return notices

    def _fold(self, events: Sequence[Event], wall: float) -> None:
        self._live.apply_all(events, wall)
        self._recent.extend(events)
        del self._recent[:-KEPT_RECENT]
        self.dirty = True
