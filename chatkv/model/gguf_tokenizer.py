"""The tokenizer that a GGUF file's metadata describes → ``tokenizer.json`` and ``tokenizer_config.json``."""

from __future__ import annotations

from pathlib import Path
from types import UnionType
from typing import Any

from chatkv.model.errors import ModelError
from chatkv.text import one_line

_CONTROL, _USER_DEFINED = 3, 4

_GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_BYTES = _GPT2 | {"use_regex": False}


def _split(pattern: str) -> list[dict[str, Any]]:
    return [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, _BYTES]


_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# tokenizer.ggml.pre → pre-tokenizers. How text is cut before merging is not in the file, only this name.
_PRE_TOKENIZERS: dict[str, list[dict[str, Any]]] = {
    "default": [_GPT2],
    "gpt-2": [_GPT2],
    "smollm": [{"type": "Digits", "individual_digits": True}, _GPT2],
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), _split(_LLAMA3)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _split(_QWEN2)),
    "tekken": _split(_TEKKEN),
}
# Families whose tokenizers match whole words of the vocabulary first, and begin a prompt with BOS.
_WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "tekken")
# What SentencePiece models have where the file doesn't say, as in llama.cpp.
_SENTENCEPIECE_IDS = {"bos": 1, "eos": 2, "unknown": 0}
_STOPS = ("eos", "eot", "eom")
# What the lists in a file hold.
_LISTS: dict[str, tuple[type | UnionType, str]] = {
    "tokens": (str, "texts"),
    "merges": (str, "texts"),
    "token_type": (int, "whole numbers"),
    "scores": (int | float, "numbers"),
}
_MAX_CUTS = 10**9
"""Characters that all ways to cut all tokens in two have; 32,000 SentencePiece tokens have two million."""


def stop_ids(metadata: dict[str, Any]) -> list[int] | int | None:
    """Ids that end an answer: of the sequence, a turn, a message; one alone as itself, None: none is told."""
    found = [_token_id(metadata, name) for name in _STOPS]
    ids = list(dict.fromkeys(i for i in found if i is not None))
    return ids if len(ids) > 1 else next(iter(ids), None)


def tokenizer_notes(metadata: dict[str, Any]) -> list[str]:
    """What is assumed because the file does not say it: one line each."""
    notes = []
    if metadata.get("tokenizer.ggml.model") == "gpt2" and "tokenizer.ggml.pre" not in metadata:
        rule = "Qwen2" if _pre(metadata) == "qwen2" else "GPT-2"
        notes.append(
            f"the GGUF file does not say how text is cut before merging (tokenizer.ggml.pre): {rule}'s rule "
            "is assumed; with a newer file answers may be better"
        )
    if not metadata.get("tokenizer.ggml.token_type"):
        notes.append(
            "the GGUF file does not say which tokens are control tokens (tokenizer.ggml.token_type): none is "
            "taken as one; use a newer file"
        )
    return notes


def _pre(metadata: dict[str, Any]) -> Any:
    qwen = metadata.get("general.architecture") in ("qwen2", "qwen3")
    return metadata.get("tokenizer.ggml.pre", "qwen2" if qwen else "default")


def _token_id(metadata: dict[str, Any], name: str) -> int | None:
    tokens = metadata.get("tokenizer.ggml.tokens")
    default = _SENTENCEPIECE_IDS.get(name) if metadata.get("tokenizer.ggml.model") == "llama" else None
    index = metadata.get(f"tokenizer.ggml.{name}_token_id", default)
    if not isinstance(index, int) or isinstance(index, bool) or not isinstance(tokens, list):
        return None
    return index if 0 <= index < len(tokens) else None


def tokenizer_files(metadata: dict[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """File name → JSON content. Raises ModelError where the file's tokenizer is missing or unsupported."""
    tokens = metadata.get("tokenizer.ggml.tokens")
    kind = metadata.get("tokenizer.ggml.model")
    if not isinstance(tokens, list) or not tokens:
        raise ModelError(f"{path}: the GGUF file has no tokenizer; use another file or a Hugging Face folder")
    _check_lists(metadata, path)
    types = metadata.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    if len(types) != len(tokens):
        raise ModelError(
            f"{path}: {len(tokens)} tokens but {len(types)} token types; download the file again"
        )
    if kind == "gpt2":
        parts = _byte_level(metadata, path, tokens)
    elif kind == "llama":
        parts = _sentencepiece(metadata, path, tokens, types)
    else:
        shown = one_line(repr(kind), 60)
        raise ModelError(f"{path}: GGUF tokenizer {shown} is not supported; only gpt2 and llama are")
    added = [
        {
            "id": i,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": types[i] == _CONTROL,
        }
        for i, token in enumerate(tokens)
        if types[i] in (_CONTROL, _USER_DEFINED)
    ]
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, **parts}
    return {"tokenizer.json": tokenizer, "tokenizer_config.json": _tokenizer_config(metadata, tokens, kind)}


def _check_lists(metadata: dict[str, Any], path: Path) -> None:
    for name, (kind, wanted) in _LISTS.items():
        values = metadata.get(f"tokenizer.ggml.{name}")
        if values is None:
            continue
        if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
            raise ModelError(f"{path}: tokenizer.ggml.{name} must be a list of {wanted}; use another file")


def _tokenizer_config(metadata: dict[str, Any], tokens: list[str], kind: str) -> dict[str, Any]:
    # llama.cpp adds BOS where the file doesn't say otherwise, but to most byte-level vocabularies.
    adds_bos = kind == "llama" or _pre(metadata) in _WHOLE_WORDS
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "add_bos_token": bool(metadata.get("tokenizer.ggml.add_bos_token", adds_bos)),
    }
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        index = _token_id(metadata, key)
        if index is not None:
            config[f"{name}_token"] = tokens[index]
    template = metadata.get("tokenizer.chat_template")
    start = "tokenizer.chat_template."
    named = [
        {"name": k.removeprefix(start), "template": v} for k, v in metadata.items() if k.startswith(start)
    ]
    if isinstance(template, str):
        config["chat_template"] = template
    elif named:
        config["chat_template"] = named
    return config


def _byte_level(metadata: dict[str, Any], path: Path, tokens: list[str]) -> dict[str, Any]:
    pre = _pre(metadata)
    if not isinstance(pre, str) or pre not in _PRE_TOKENIZERS:
        raise ModelError(
            f"{path}: GGUF pre-tokenizer {one_line(repr(pre), 60)} is not supported; "
            f"only {', '.join(_PRE_TOKENIZERS)} are: use a Hugging Face folder"
        )
    merges = metadata.get("tokenizer.ggml.merges")
    if not isinstance(merges, list):
        raise ModelError(f"{path}: the GGUF tokenizer has no merges; download the file again")
    # Llama 3's vocabulary holds whole words that its merges don't reach; a match in it wins.
    ignore_merges = pre in _WHOLE_WORDS
    return {
        "normalizer": {"type": "NFC"} if pre in ("qwen2", "deepseek-r1-qwen") else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _PRE_TOKENIZERS[pre]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": _bpe(tokens, [merge.split(" ", 1) for merge in merges], ignore_merges=ignore_merges),
    }


def _sentencepiece(
    metadata: dict[str, Any], path: Path, tokens: list[str], types: list[int]
) -> dict[str, Any]:
    scores = metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise ModelError(f"{path}: the GGUF tokenizer has no scores; download the file again")
    prefix = bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
    unknown = _token_id(metadata, "unknown")
    spaces: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefix:
        spaces.insert(0, {"type": "Prepend", "prepend": "▁"})
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    if sum(len(token) ** 2 for token in tokens) > _MAX_CUTS:
        raise ModelError(f"{path}: the GGUF tokenizer has too many long tokens; use another file")
    model = _bpe(tokens, _merges_from_scores(tokens, scores, types), byte_fallback=True, fuse_unk=True)
    model["unk_token"] = None if unknown is None else tokens[unknown]
    return {
        "normalizer": {"type": "Sequence", "normalizers": spaces},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": model,
    }


def _bpe(tokens: list[str], merges: list[list[str]], **flags: bool) -> dict[str, Any]:
    model: dict[str, Any] = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    }
    vocab = {token: i for i, token in enumerate(tokens)}
    return model | flags | {"vocab": vocab, "merges": merges}


def _merges_from_scores(tokens: list[str], scores: list[float], types: list[int]) -> list[list[str]]:
    """SentencePiece BPE keeps scores, not merges: every way to make a piece of two, best score first."""
    plain = {token: i for i, token in enumerate(tokens) if types[i] not in (_CONTROL, _USER_DEFINED)}
    merges = []
    for token, index in plain.items():
        for cut in range(1, len(token)):
            left, right = plain.get(token[:cut]), plain.get(token[cut:])
            if left is not None and right is not None:
                merges.append((-scores[index], left, right, token[:cut], token[cut:]))
    merges.sort()
    return [[left, right] for _, _, _, left, right in merges]
