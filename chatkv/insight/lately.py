"""How it went lately: the newest prompts, waits, speeds and evictions, in windows of fixed size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Self

from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched

PROMPTS = 16
"""Prompts that the rolling hit rate is taken over."""
KEPT = 120
"""Values kept of each kind: as many as a wide sparkline shows."""
SPEED_S = 0.25
"""Seconds of steps that go into one value of a speed."""
MINUTE_S = 60.0
BARS = 12
"""Parts of the minute that evictions are counted in."""
_BURSTS = 4096


class Speed:
    """Tokens a second, a value for every ``SPEED_S`` seconds of steps that computed such tokens."""

    def __init__(self) -> None:
        self.values: deque[float] = deque(maxlen=KEPT)
        self._tokens, self._seconds = 0, 0.0

    def add(self, tokens: int, seconds: float) -> None:
        """A step computed ``tokens`` (none: it says nothing of this speed) in ``seconds``."""
        if not tokens:
            return
        self._tokens += tokens
        self._seconds += seconds
        if self._seconds >= SPEED_S:
            self.values.append(self._tokens / self._seconds)
            self._tokens, self._seconds = 0, 0.0

    def copy(self) -> Speed:
        """An independent copy."""
        twin = Speed()
        twin.values, twin._tokens, twin._seconds = self.values.copy(), self._tokens, self._seconds
        return twin


class Lately:
    """``prompts``: (prompt tokens, reused tokens) of the newest ones; ``ttfts``: seconds, newest last."""

    def __init__(self) -> None:
        self.prompts: deque[tuple[int, int]] = deque(maxlen=KEPT)
        self.ttfts: deque[float] = deque(maxlen=KEPT)
        self.prefill, self.decode = Speed(), Speed()
        self._evicted: deque[tuple[float, int]] = deque(maxlen=_BURSTS)
        """Wall time and how many went then."""
        self._step = (0, 0)
        """Tokens of prompts and of answers in the step that runs."""

    @property
    def hit_rate(self) -> float:
        """Reused / asked, over the last ``PROMPTS`` prompts; 0 before any."""
        newest = list(self.prompts)[-PROMPTS:]
        asked = sum(tokens for tokens, _ in newest)
        return sum(reused for _, reused in newest) / asked if asked else 0.0

    def evictions(self, now: float) -> int:
        """How many were evicted in the minute before wall time ``now``."""
        return sum(count for wall, count in self._evicted if wall > now - MINUTE_S)

    def eviction_bars(self, now: float) -> tuple[int, ...]:
        """The same minute in ``BARS`` parts, the newest last; empty where nothing was evicted in it."""
        bars = [0] * BARS
        for wall, count in self._evicted:
            if wall > now - MINUTE_S:
                bars[min(BARS - 1, int(BARS * (1 - (now - wall) / MINUTE_S)))] += count
        return tuple(bars) if any(bars) else ()

    def add(self, event: kv.Event, wall: float | None) -> None:
        """Fold one record; ``wall`` is when it was told (None: its eviction counts for no minute)."""
        taker = _TAKERS.get(type(event))
        if taker is not None:
            taker(self, event, wall)

    def copy(self) -> Self:
        """An independent copy."""
        twin = type(self)()
        twin.prompts, twin.ttfts, twin._evicted = (
            self.prompts.copy(),
            self.ttfts.copy(),
            self._evicted.copy(),
        )
        twin.prefill, twin.decode, twin._step = self.prefill.copy(), self.decode.copy(), self._step
        return twin

    def _accounted(self, event: kv.PromptAccounted, wall: float | None) -> None:
        self.prompts.append((event.prompt_tokens, event.hit + event.copied))

    def _first_token(self, event: sched.FirstToken, wall: float | None) -> None:
        self.ttfts.append(event.ttft_s)

    def _planned(self, event: sched.StepPlanned, wall: float | None) -> None:
        self._step = (sum(tokens for _, tokens in event.prefill), len(event.decode))

    def _done(self, event: sched.StepDone, wall: float | None) -> None:
        prefill, decode = self._step
        self.prefill.add(prefill, event.step_s)
        self.decode.add(decode, event.step_s)
        self._step = (0, 0)

    def _left(self, event: kv.NodeEvicted | kv.NodeTrimmed, wall: float | None) -> None:
        if wall is None or event.reason == "superseded":
            return
        if self._evicted and self._evicted[-1][0] == wall:
            wall, count = self._evicted.pop()
            self._evicted.append((wall, count + 1))
        else:
            self._evicted.append((wall, 1))


_TAKERS: dict[type[kv.Event], Callable[[Lately, Any, float | None], None]] = {
    kv.PromptAccounted: Lately._accounted,
    kv.NodeEvicted: Lately._left,
    kv.NodeTrimmed: Lately._left,
    sched.FirstToken: Lately._first_token,
    sched.StepPlanned: Lately._planned,
    sched.StepDone: Lately._done,
}
