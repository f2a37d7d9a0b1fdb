"""Stop strings in text that comes in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Lets text through that can't be part of one of ``stops``; what may become one is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.hit: str | None = None
        """The stop string that was found; nothing comes through after it."""
        self.cut = 0
        """Characters at the end of all that was pushed that did not come through, once one was found."""

    def push(self, text: str) -> str:
        """What is certain now: it ends before the first stop string (of two at one place, either)."""
        if self.hit is not None:
            self.cut += len(text)
            return ""
        if not self._stops:
            return text
        text = self._held + text
        found = min(((at, s) for s in self._stops if (at := text.find(s)) >= 0), default=None)
        if found is not None:
            at, self.hit = found
            self.cut, self._held = len(text) - at, ""
            return text[:at]
        held = max(_overlap(text, s) for s in self._stops)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def flush(self) -> str:
        """The text ends here: what was held back is text."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """How many of the last characters of ``text`` begin ``stop`` (never all of it)."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
