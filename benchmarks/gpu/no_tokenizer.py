"""In place of a tokenizer where a model has none, as one of random weights: prompts are token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from chatkv.model.errors import ModelError
from chatkv.model.thinking import ThinkingSplitter


class NoTokenizer:
    """Has ``Codec``'s methods: it encodes nothing (ModelError says so), and answers have no text."""

    stop_ids: frozenset[int] = frozenset()
    stop_texts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    default_system = None

    def encode_chat(self, turns: Sequence[object]) -> NoReturn:
        """Raise ModelError."""
        raise ModelError("this model has no tokenizer: give token ids")

    def encode_prompt(self, text: str) -> NoReturn:
        """Raise ModelError."""
        self.encode_chat(())

    def encode_later(self, text: str) -> list[int]:
        """Return no ids: a stop text can't be found in answers without text."""
        return []

    def decode(self, ids: Sequence[int]) -> str:
        """Return no text."""
        return ""

    def piece(self, token_id: int) -> str:
        """Return a name for the eye."""
        return f"<{token_id}>"

    def splitter(self, chat: bool = True) -> ThinkingSplitter:
        """Return one that finds no thinking."""
        return ThinkingSplitter(False, False)

    def detokenizer(self) -> _NoText:
        """Return one without text."""
        return _NoText()


class _NoText:
    pending = False

    def push(self, token: int) -> str:
        """Return no text."""
        return ""

    def flush(self) -> str:
        """Return no text: none was held back."""
        return ""
