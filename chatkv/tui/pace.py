"""How often the screen is drawn while an engine computes in the same process."""

from __future__ import annotations

import time
from collections.abc import Callable

_MOST_OWED_S = 0.1
"""So that one expensive moment, such as another session on the screen, is soon forgotten."""


class Pace:
    """Keeps what this thread takes of a core to ``share`` by drawing less often, down to every ``slowest_s``.

    What drawing takes the engine does not get: they share the interpreter, and often the cores.
    """

    def __init__(
        self,
        share: float,
        slowest_s: float,
        clock: Callable[[], float] = time.perf_counter,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        """``clock`` and ``spent`` tell seconds: that have passed, and that this thread has computed."""
        self._share = share
        self._slowest_s = slowest_s
        self._clock, self._spent = clock, spent
        self._at, self._was = clock(), spent()
        self._drawn = self._at
        self._owed = 0.0
        """Seconds computed beyond the share."""

    def due(self) -> bool:
        """Whether to draw now; asked as often as one would draw at most."""
        now, spent = self._clock(), self._spent()
        self._owed += spent - self._was - self._share * (now - self._at)
        self._owed = min(max(0.0, self._owed), _MOST_OWED_S)
        self._at, self._was = now, spent
        if self._owed and now - self._drawn < self._slowest_s:
            return False
        self._drawn = now
        return True
