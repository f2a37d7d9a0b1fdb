"""What an engine must be able to do to be measured beside ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

DECODED = 32
"""Tokens decoded in a case; the time to the first one is not counted."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One set-up for all engines, so that what is compared is the same work."""

    folder: str
    """Hugging Face folder."""
    gguf: str | None
    """The same weights as a GGUF file, where there is one."""
    threads: int
    max_tokens: int
    """The longest sequence that will be asked for."""
    batch: int
    """The most sequences at once."""


class Peer(ABC):
    """Greedy decoding on token ids, without an end token. One instance a process."""

    most_at_once: int | None = None
    """How many sequences it decodes at once; None: as many as asked."""

    @abstractmethod
    def about(self) -> str:
        """Version and number format, as shown in the table."""

    @abstractmethod
    def prefill(self, prompt: list[int]) -> float:
        """Seconds to the first token of ``prompt`` with nothing cached."""

    @abstractmethod
    def decode(self, prompts: list[list[int]]) -> float:
        """Seconds for ``DECODED - 1`` tokens of each of ``prompts`` at once, after the first one's."""

    @abstractmethod
    def cached(self, prompt: list[int], more: list[int]) -> float:
        """Seconds to the first token of ``prompt + more`` where ``prompt`` is in the cache."""
