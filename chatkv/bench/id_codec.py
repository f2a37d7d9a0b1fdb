"""Text that is token ids, for models that are random numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chatkv.engine.messages import Turn
from chatkv.model.thinking import ThinkingSplitter


class IdCodec:
    """Text is token ids, written as numbers: a random model has no other."""

    stop_ids: frozenset[int] = frozenset()
    default_system = None

    def encode_chat(self, turns: Sequence[Turn]) -> list[int]:
        """The ids that the turns name."""
        return [int(word) for turn in turns for word in turn.text.split()]

    def decode(self, ids: Iterable[int]) -> str:
        """The ids, as words."""
        return " ".join(map(str, ids))

    def piece(self, token: int) -> str:
        """The id."""
        return str(token)

    def encode_later(self, text: str) -> list[int]:
        """The ids that ``text`` names."""
        return [int(word) for word in text.split()]

    def splitter(self) -> ThinkingSplitter:
        """Nothing of it is thinking."""
        return ThinkingSplitter(False, False)

    def detokenizer(self) -> _Numbers:
        """A word for each id."""
        return _Numbers()


class _Numbers:
    pending = False

    def push(self, token: int) -> str:
        """The id and a space."""
        return f"{token} "

    def flush(self) -> str:
        """Nothing is held back."""
        return ""
