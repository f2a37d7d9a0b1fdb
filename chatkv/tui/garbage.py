"""When Python looks for garbage: in spare moments, not while somebody waits.

A full collection looks at every object and stops all threads meanwhile: 150 ms beside a tree of 100,000
nodes. Left alone it comes where most is made, which is while a key's answer is drawn.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

YOUNG, MIDDLE = 700, 10
"""Python's own: a thousand objects take microseconds to look through."""
FULL_AFTER: Final = 100
"""Collections of the middle generation after which a full one comes anyway, spare moment or not: hundreds of
thousands of new objects, so that memory stays bounded beside answers that never end."""
WORTH: Final = 5
"""Collections of the middle generation since the last full one that make another worth its time."""
QUIET_S: Final = 1.5
"""Without a key or an answer for so long, nobody waits."""


class Garbage:
    """Takes over when full collections are made, for the process, until ``close``."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        counts: Callable[[], tuple[int, int, int]] = gc.get_count,
        collect: Callable[[], object] = gc.collect,
    ) -> None:
        """``counts`` and ``collect`` as in ``gc``."""
        self._clock, self._counts, self._collect = clock, counts, collect
        self._active = clock()
        self._before = gc.get_threshold()
        gc.set_threshold(YOUNG, MIDDLE, FULL_AFTER)

    def active(self) -> None:
        """Somebody waits: a key was pressed, or an answer runs."""
        self._active = self._clock()

    def look(self) -> bool:
        """Collect if it is worth it and nobody waits; whether it was done. Asked now and then."""
        if self._clock() - self._active < QUIET_S or self._counts()[2] < WORTH:
            return False
        self._collect()
        return True

    def settle(self) -> None:
        """What there is now stays (a model that was loaded): it is never looked through again."""
        gc.freeze()

    def unsettle(self) -> None:
        """What had been loaded is over: let it go."""
        gc.unfreeze()
        self._collect()

    def close(self) -> None:
        """As it was before."""
        gc.set_threshold(*self._before)
