"""Token ids → text, a token at a time, never half a character."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Mapping

from tokenizers import Tokenizer

from chatkv.model.panics import NoPanic

DECODING = NoPanic("write out tokens")
_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte → the byte."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    rest = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(rest)}


class TokenBytes:
    """Bytes of each token of a byte-level vocabulary; special tokens have none."""

    def __init__(self, tokenizer: Tokenizer, special: Iterable[int]) -> None:
        self._tokenizer = tokenizer
        self._alphabet = byte_alphabet()
        self._known = dict.fromkeys(special, b"")

    def __getitem__(self, token_id: int) -> bytes:
        known = self._known.get(token_id)
        if known is None:
            known = self._known[token_id] = self.spelled(self._tokenizer.id_to_token(token_id) or "")
        return known

    def spelled(self, token: str) -> bytes:
        """The bytes that a token's spelling stands for; one that isn't in the alphabet stands for itself."""
        try:
            return bytes([self._alphabet[c] for c in token])
        except KeyError:
            return token.encode("utf-8", "replace")


def is_byte_level(tokenizer: Tokenizer) -> bool:
    """True where decoding is: join the tokens' bytes, read them as UTF-8 (GPT-2, Llama 3, Qwen, SmolLM2)."""
    if tokenizer.decoder is None:
        return False
    decoder = json.loads(tokenizer.decoder.__getstate__())
    parts = decoder.get("decoders", [decoder])
    return [part["type"] for part in parts] == ["ByteLevel"]


class Detokenizer:
    """Incremental text of one answer: every ``push`` and the ``flush`` joined equal ``decode`` of all ids."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        special: frozenset[int],
        token_bytes: TokenBytes | None,
        named: Mapping[int, str] | None = None,
    ) -> None:
        """``special``: ids without text, but for those ``named``; ``token_bytes``: where it is byte-level."""
        self._named = named or {}
        self._tokenizer = tokenizer
        self._special = special
        self._bytes = token_bytes
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        # Without byte-level tokens: the ids of the last text (context for the decoder), and the ones since.
        self._context: list[int] = []
        self._pending: list[int] = []

    def push(self, token_id: int) -> str:
        """The text that is certain now; empty while a character is incomplete or the token is special."""
        if token_id in self._named:
            return self.flush() + self._named[token_id]
        if self._bytes is not None:
            return self._utf8.decode(self._bytes[token_id])
        token = self._tokenizer.id_to_token(token_id)
        if token is None or token_id in self._special:
            return ""
        self._pending.append(token_id)
        if _BYTE_TOKEN.fullmatch(token):
            # A run of byte tokens is decoded as a whole, valid or not: wait for its end.
            return ""
        return self._take()

    @property
    def pending(self) -> bool:
        """Whether the last id ended inside a character, or its text is not certain yet."""
        return bool(self._pending or self._utf8.getstate()[0])

    def flush(self) -> str:
        """The rest: an incomplete character at the end becomes U+FFFD."""
        if self._bytes is not None:
            return self._utf8.decode(b"", final=True)
        return self._take() if self._pending else ""

    def _take(self) -> str:
        with DECODING:
            before = self._tokenizer.decode(self._context, skip_special_tokens=True) if self._context else ""
            text = self._tokenizer.decode(self._context + self._pending, skip_special_tokens=True)
        if len(text) > len(before):
            self._context = self._pending
        else:
            # Nothing to show yet (a first space is stripped): the next text is decoded after it.
            self._context = self._context + self._pending
        self._pending = []
        return text[len(before) :]
