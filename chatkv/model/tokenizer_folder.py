"""What a Hugging Face folder says about its tokenizer, read from the files that may hold it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from chatkv.files import MIB, UnreadableError, read_text
from chatkv.model.config import read_json
from chatkv.model.errors import ModelError
from chatkv.model.panics import NoPanic

_LOADING = NoPanic("read its own files")

MAX_TEMPLATE = 4 * MIB
"""Bytes of a chat template in a file of its own."""


@dataclass(frozen=True, slots=True)
class TokenizerFolder:
    """The parts of a tokenizer: what they mean is up to ``Codec``."""

    tokenizer: Tokenizer
    template: str | None
    """Jinja source of the chat template."""
    special_tokens: dict[str, str]
    """``bos_token``, ``eos_token`` … → its text."""
    eos_ids: frozenset[int]
    adds_bos: bool

    @classmethod
    def load(cls, folder: Path) -> TokenizerFolder:
        """Read ``folder``; raises ModelError where the tokenizer is missing or unreadable."""
        settings = _optional_json(folder / "tokenizer_config.json")
        tokenizer = _load_tokenizer(folder)
        names = _special_tokens(_optional_json(folder / "special_tokens_map.json") | settings)
        eos: set[int] = set()
        for file in ("config.json", "generation_config.json"):
            value = _optional_json(folder / file).get("eos_token_id")
            eos |= {i for i in (value if isinstance(value, list) else [value]) if isinstance(i, int)}
        named = tokenizer.token_to_id(names["eos_token"]) if "eos_token" in names else None
        if named is not None:
            eos.add(named)
        with _LOADING:
            adds_bos = bool(settings.get("add_bos_token")) or bool(tokenizer.encode("").ids)
        return cls(tokenizer, _template(folder, settings), names, frozenset(eos), adds_bos)


def _load_tokenizer(folder: Path) -> Tokenizer:
    file = folder / "tokenizer.json"
    if file.is_file():
        try:
            with _LOADING:
                return Tokenizer.from_file(str(file))
        except ModelError:
            raise
        except Exception as error:
            # The library raises bare Exception for anything wrong with the file.
            raise ModelError(f"{file} can't be read ({str(error)[:120]}); download it again") from None
    from transformers import AutoTokenizer

    try:
        with _LOADING:
            return AutoTokenizer.from_pretrained(folder).backend_tokenizer
    except ModelError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"{folder} has no tokenizer.json and its other tokenizer files can't be read ({reason[:120]}); "
            "add the tokenizer.json"
        ) from None


def _optional_json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _special_tokens(settings: dict[str, Any]) -> dict[str, str]:
    names: dict[str, str] = {}
    for key, value in settings.items():
        text = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(text, str):
            names[key] = text
    return names


def _template(folder: Path, settings: dict[str, Any]) -> str | None:
    """A file of its own goes before ``tokenizer_config.json``; of several named ones, ``default``."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return read_text(file, MAX_TEMPLATE)
        except UnreadableError as error:
            raise ModelError(f"{file} {error}; download it again") from None
    found = _optional_json(folder / "chat_template.json").get("chat_template") or settings.get(
        "chat_template"
    )
    if isinstance(found, list):
        found = {t.get("name"): t.get("template") for t in found if isinstance(t, dict)}.get("default")
    return found if isinstance(found, str) else None
