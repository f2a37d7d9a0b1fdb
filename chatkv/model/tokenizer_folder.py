"""What a Hugging Face folder says about its tokenizer, read from the files that may hold it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from chatkv.files import MIB, UnreadableError, read_text
from chatkv.model.config import read_json
from chatkv.model.errors import ModelError
from chatkv.model.panics import LOADING
from chatkv.model.tokenizer_check import load_tokenizer
from chatkv.text import one_line

_FOR_TOOLS = ("tool_use", "rag")
"""Names of chat templates that are for other than plain chats."""


MAX_TEMPLATE = 4 * MIB
"""Bytes of a chat template in a file of its own."""


@dataclass(frozen=True, slots=True)
class TokenizerFolder:
    """The parts of a tokenizer: what they mean is up to ``Codec``."""

    tokenizer: Tokenizer
    template: str | None
    """Jinja source of the chat template; None: the folder has none."""
    special_tokens: dict[str, str]
    """``bos_token``, ``eos_token`` … → its text."""
    eos_ids: frozenset[int]
    adds_bos: bool
    notes: tuple[str, ...] = ()
    """What was assumed because the folder does not say it: one line each, for a person."""

    @classmethod
    def load(cls, folder: Path) -> TokenizerFolder:
        """Read ``folder``; raises ModelError where the tokenizer is missing or unreadable."""
        settings = _optional_json(folder / "tokenizer_config.json")
        tokenizer = load_tokenizer(folder)
        names = _special_tokens(_optional_json(folder / "special_tokens_map.json") | settings)
        eos: set[int] = set()
        for file in ("config.json", "generation_config.json"):
            value = _optional_json(folder / file).get("eos_token_id")
            eos |= {i for i in (value if isinstance(value, list) else [value]) if isinstance(i, int)}
        named = tokenizer.token_to_id(names["eos_token"]) if "eos_token" in names else None
        if named is not None:
            eos.add(named)
        with LOADING:
            adds_bos = bool(settings.get("add_bos_token")) or bool(tokenizer.encode("").ids)
        template, notes = _template(folder, settings)
        return cls(tokenizer, template, names, frozenset(eos), adds_bos, notes)


def _optional_json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _special_tokens(settings: dict[str, Any]) -> dict[str, str]:
    names: dict[str, str] = {}
    for key, value in settings.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            names[key] = text
    return names


def _template(folder: Path, settings: dict[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """The chat template and notes. A file of its own goes before ``tokenizer_config.json``.

    Of several named ones it is ``default``; where none is called so, the first that is not for tools or
    documents.
    """
    file = folder / "chat_template.jinja"
    if file.is_file() and (source := _text(file)).strip():
        return source, ()
    found = _optional_json(folder / "chat_template.json").get("chat_template") or settings.get(
        "chat_template"
    )
    if isinstance(found, str) and found.strip():
        return found, ()
    if isinstance(found, list):
        found = {str(each.get("name")): each.get("template") for each in found if isinstance(each, dict)}
    named = {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}
    for file in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        named.setdefault(file.stem, _text(file))
    if not named:
        return None, (
            "the model has no chat template: it is taken as one that continues text, prompts are written "
            "'User: … Assistant:', and an answer ends where the next 'User:' begins",
        )
    if "default" in named:
        return named["default"], ()
    taken = next((name for name in named if name not in _FOR_TOOLS), next(iter(named)))
    names = one_line(", ".join(named), 120)
    return named[taken], (
        f"none of the model's chat templates ({names}) is called default: {one_line(taken, 60)} is used",
    )


def _text(file: Path) -> str:
    try:
        return read_text(file, MAX_TEMPLATE)
    except UnreadableError as error:
        raise ModelError(f"{file} {error}; download it again") from None
