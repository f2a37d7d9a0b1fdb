"""What the app needs of an engine, and how the engine's words reach the app."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from textual.message import Message

from chatkv.engine.messages import EngineMessage, GenerateRequest, Prompt


class EnginePort(Protocol):
    """The verbs of ``chatkv.engine.thread.Engine``; each returns at once."""

    def start(self) -> None:
        """Load the model, then take requests."""

    @property
    def alive(self) -> bool:
        """False once its thread is over."""

    def submit(self, request: GenerateRequest) -> int:
        """Queue ``request``; its id."""

    def stop(self, request: int) -> None:
        """End it; ``Finished`` follows."""

    def clear_cache(self) -> None:
        """Forget every cached prefix."""

    def pin(self, node: int, pinned: bool) -> None:
        """Have a node of the tree evicted last, or no longer; ``PinRefused`` follows where it can't be."""

    def measure(self, ticket: int, session: str, prompt: Prompt) -> None:
        """Tell what asking for an answer to ``prompt`` would cost; ``Measured`` follows."""

    def verify(self, request: int) -> None:
        """Compute a finished request again without the cache; ``Verified`` follows."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids."""

    def close(self, timeout: float = 1.0) -> bool:
        """Stop the thread; True where it is over within ``timeout`` seconds."""


EngineFactory = Callable[[Callable[[EngineMessage], None]], EnginePort]
"""Makes an engine that reports to the listener, which it calls on its own thread."""


class EngineReport(Message):
    """The engine has said something that the screen should not be late to hear; posted from its thread."""
