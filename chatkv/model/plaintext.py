"""Encoding of text that nobody may use to forge a control token."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from tokenizers import Tokenizer

from chatkv.model.panics import NoPanic

_ENCODING = NoPanic("read a text")
_SURROGATES = re.compile("[\ud800-\udfff]")


def any_of(names: Iterable[str]) -> re.Pattern[str]:
    """A pattern for any of ``names``, the longest first, as added tokens are matched; none: never."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


class PlainEncoder:
    """A tokenizer without its control tokens.

    ``control_ids``: special tokens, and added ones that a model treats as marks (``<think>``): not white
    space, more than one character. The unknown token counts only where it also ends answers.
    """

    def __init__(self, tokenizer: Tokenizer, eos_ids: frozenset[int]) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # Spelled-out special tokens then go through the model like other text.
        tokenizer.encode_special_tokens = True
        added = tokenizer.get_added_tokens_decoder()
        self.control_ids = frozenset(i for i, t in added.items() if t.special or len(t.content.strip()) > 1)
        unknown = getattr(tokenizer.model, "unk_token", None)
        unknown_id = None if unknown is None else tokenizer.token_to_id(unknown)
        self._forbidden = self.control_ids - ({unknown_id} - eos_ids)
        self._marks = any_of(t.content for i, t in added.items() if i in self.control_ids and not t.special)
        self._first = tokenizer
        self._later = _without_first_prefix(tokenizer)

    def encode(self, text: str, first: bool = True) -> list[int]:
        """Ids of ``text``; ``first``: it starts a prompt. Lone surrogates become U+FFFD."""
        text = _SURROGATES.sub("\ufffd", text)
        ids: list[int] = []
        # Marks are no special tokens to the library: cutting them apart is the only way to keep them text.
        todo = []
        start = 0
        for match in self._marks.finditer(text):
            todo.append(text[start : match.start() + 1])
            start = match.start() + 1
        todo.append(text[start:])
        todo.reverse()
        while todo:
            part = todo.pop()
            if not part:
                continue
            tokenizer = self._first if first and not ids else self._later
            with _ENCODING:
                encoding = tokenizer.encode(part, add_special_tokens=False)
            if self._forbidden.isdisjoint(encoding.ids):
                ids += encoding.ids
                continue
            # The vocabulary itself merges into a control token: cut that one apart, or drop a lone character.
            begin = next(
                o[0] for i, o in zip(encoding.ids, encoding.offsets, strict=True) if i in self._forbidden
            )
            if len(part) > 1:
                cut = min(begin + 1, len(part) - 1)
                todo += [part[cut:], part[:cut]]
        return ids


def _without_first_prefix(tokenizer: Tokenizer) -> Tokenizer:
    """SentencePiece's ``first`` scheme puts a space before the start of a prompt, but of nothing later."""
    if tokenizer.pre_tokenizer is None:
        return tokenizer
    content = json.loads(tokenizer.pre_tokenizer.__getstate__())
    parts = content.get("pretokenizers", [content])
    if not any(part.get("prepend_scheme") == "first" for part in parts):
        return tokenizer
    whole = json.loads(tokenizer.to_str())
    pre = whole["pre_tokenizer"]
    for part in pre.get("pretokenizers", [pre]):
        if part.get("prepend_scheme") == "first":
            part["prepend_scheme"] = "never"
    later = Tokenizer.from_str(json.dumps(whole))
    later.encode_special_tokens = True
    return later
