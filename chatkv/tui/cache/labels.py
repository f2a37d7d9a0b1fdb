"""What a run of tokens says, in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.cache import LRUCache

from chatkv.insight.visible import visible
from chatkv.kvcache.events import Int32Array
from chatkv.tui.cache.cells import steady

Decode = Callable[[Sequence[int]], str]

_LABEL_TOKENS = 96
"""More than a row of any screen shows."""


class Labels:
    """Token arrays → short texts, remembered. Without a decoder they are the token ids."""

    def __init__(self) -> None:
        self._decode: Decode | None = None
        self._known: LRUCache[bytes, str] = LRUCache(4096)

    @property
    def decode(self) -> Decode | None:
        """The tokenizer's; None while there is none."""
        return self._decode

    @decode.setter
    def decode(self, decode: Decode | None) -> None:
        self._decode = decode
        self._known.clear()

    def label(self, tokens: Int32Array) -> str:
        """The beginning of ``tokens``, white space made visible, without anything a terminal obeys."""
        head = tokens[:_LABEL_TOKENS]
        key = head.tobytes()
        label = self._known.get(key)
        if label is None:
            label = self._known[key] = steady(self.text(head.tolist()))
        return label

    def text(self, tokens: Sequence[int]) -> str:
        """All of ``tokens``, white space made visible."""
        if self._decode is None:
            return " ".join(map(str, tokens))
        return visible(self._decode(tokens))
