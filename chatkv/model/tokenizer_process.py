"""Tries out a tokenizer in a process of its own: ``tokenizer_check`` asks it.

What may multiply a text or never end is looked for in its description, then it reads typical texts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chatkv.documents import DocumentError, parse_json
from chatkv.files import MIB, UnreadableError, read_text
from chatkv.model.confined import serve
from chatkv.model.errors import LimitError, ModelError
from chatkv.model.panics import LOADING

_MEMORY = 8192 * MIB
MAX_BYTES = 64 * MIB
_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_MAX_WRITTEN = 256
"""Characters that a rule puts in place of what it finds."""
_MAX_GROWTH = 64
_MAX_NUMBER = 1 << 20
_MAX_RULES = 4096
_TEXTS = (
    "Hello, world! This is a text as people write it, isn't it? 12.5 (a+b)*c\n\n\tdef f(x): return x\r\n",
    "Größe, naïve, Привет мир, こんにちは世界, 你好, مرحبا, שלום, 👩‍👩‍👧‍👦🏳️‍🌈 ½ ﷺ ﬁ",
    *(
        each * 2000
        for each in ("a", " ", "\n", "1", "A", "=", "é", "語", "👍", "ab", "a ", "a1", "aA", " \n", ".", "'s")
    ),
)


def answer(question: dict[str, str]) -> str | None:
    """None where the ``tokenizer.json`` of ``file`` is sound; that of a ``folder`` which has none.

    Raises ModelError, LimitError.
    """
    from tokenizers import Tokenizer

    if folder := question.get("folder"):
        from transformers import AutoTokenizer

        try:
            converted = AutoTokenizer.from_pretrained(
                folder, trust_remote_code=False, local_files_only=True
            ).backend_tokenizer.to_str()
        except Exception as error:
            raise ModelError((str(error).strip() or type(error).__name__).splitlines()[0][:120]) from None
        return str(converted)
    file = Path(question["file"])
    try:
        text = read_text(file, MAX_BYTES)
        _check(parse_json(text, constants=True), file)
    except UnreadableError as error:
        raise ModelError(f"{file} {error}") from None
    except DocumentError as error:
        raise ModelError(f"{file}: {error}; download it again") from None
    with LOADING:
        try:
            tokenizer = Tokenizer.from_str(text)
        except Exception as error:
            # The library raises bare Exception for anything wrong with the file.
            raise ModelError(f"{file} can't be read ({str(error)[:120]}); download it again") from None
        _try(tokenizer, file)
    return None


def _check(content: Any, file: Path) -> None:
    if not isinstance(content, dict):
        raise ModelError(f"{file} must hold a JSON object; download it again")
    for part in _PARTS:
        growth, rules = 1.0, 0
        todo = [content.get(part)]
        while todo:
            each = todo.pop()
            rules += 1
            if isinstance(each, dict):
                growth *= _growth(each)
                todo += each.values()
            elif isinstance(each, list):
                todo += each
            elif isinstance(each, int | float) and not -_MAX_NUMBER <= each <= _MAX_NUMBER:
                raise LimitError(f"{file}: {part}: {each} is more than {_MAX_NUMBER:,}: use another model")
        if growth > _MAX_GROWTH or rules > _MAX_RULES:
            raise LimitError(f"{file}: {part}: its rules may multiply a text without end: use another model")


def _growth(rule: dict[str, Any]) -> float:
    """How many times longer a rule may make a text; what it only puts before one does not count."""
    written = rule.get("content")
    pattern = rule.get("pattern")
    if isinstance(rule.get("prepend"), str) and len(rule["prepend"]) > _MAX_WRITTEN:
        return float("inf")
    if not isinstance(written, str) or not isinstance(pattern, dict):
        return 1
    found = pattern.get("String")
    if len(written) > _MAX_WRITTEN:
        return float("inf")
    return max(1, len(written) / len(found)) if isinstance(found, str) and found else 1 + len(written)


def _try(tokenizer: Any, file: Path) -> None:
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for text in ("", *_TEXTS):
        count = len(tokenizer.encode(text).ids)
        most = 256 + 4 * len(text.encode())
        if count > most:
            raise LimitError(f"{file}: {len(text):,} characters become {count:,} tokens: use another model")


if __name__ == "__main__":
    serve(answer, _MEMORY)
