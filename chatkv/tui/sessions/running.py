"""An answer on its way: what the engine has sent of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from chatkv.chat.tree import Message
from chatkv.engine.messages import Delta, Finished


@dataclass(slots=True, eq=False)
class Running:
    """The answer to message ``parent`` that ``request`` generates (None: it waits for the engine)."""

    request: int | None
    parent: str
    before: str | None = None
    """Where the head was when an answer is made again: it goes back there if nothing comes of this one."""
    text: str = ""
    thinking: str = ""
    token_ids: list[int] = field(default_factory=list)
    started: float = field(default_factory=monotonic)
    first_token: float | None = None
    message: Message | None = None
    """What became of it once finished; None before, and for an answer without a single token."""
    over: bool = False
    doing: str = ""
    """Why no tokens come, in words; empty while they do, and where that is not known."""
    stopping: bool = False
    """The engine was told to stop; it ends the forward it is in first."""

    def add(self, delta: Delta) -> None:
        """Take in new text and ids."""
        if self.first_token is None and delta.token_ids:
            self.first_token = monotonic()
        self.text += delta.text
        self.thinking += delta.thinking
        self.token_ids.extend(delta.token_ids)

    def close(self, finished: Finished) -> None:
        """The engine's last word: its text and ids are the whole answer."""
        self.text, self.thinking = finished.text, finished.thinking
        self.token_ids = list(finished.token_ids)

    @property
    def tokens_per_second(self) -> float | None:
        """Speed up to now; None before the second token."""
        if self.first_token is None or len(self.token_ids) < 2:
            return None
        return (len(self.token_ids) - 1) / max(monotonic() - self.first_token, 1e-6)
