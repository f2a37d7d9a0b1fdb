"""The tokenizer that a GGUF file's metadata describes → ``tokenizer.json`` and ``tokenizer_config.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chatkv.model.errors import ModelError

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


def tokenizer_files(metadata: dict[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """File name → JSON content. Raises ModelError where the file's tokenizer is missing or unsupported."""
    tokens = metadata.get("tokenizer.ggml.tokens")
    kind = metadata.get("tokenizer.ggml.model")
    if not isinstance(tokens, list) or not tokens:
        raise ModelError(f"{path}: the GGUF file has no tokenizer; use another file or a Hugging Face folder")
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
        raise ModelError(f"{path}: GGUF tokenizer {kind!r} is not supported; only gpt2 and llama are")
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


def _tokenizer_config(metadata: dict[str, Any], tokens: list[str], kind: str) -> dict[str, Any]:
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        # llama.cpp adds BOS to a sentencepiece vocabulary that doesn't say otherwise.
        "add_bos_token": bool(metadata.get("tokenizer.ggml.add_bos_token", kind == "llama")),
    }
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        index = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(index, int) and 0 <= index < len(tokens):
            config[f"{name}_token"] = tokens[index]
    template = metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        config["chat_template"] = template
    return config


def _byte_level(metadata: dict[str, Any], path: Path, tokens: list[str]) -> dict[str, Any]:
    pre = metadata.get("tokenizer.ggml.pre", "default")
    if pre not in _PRE_TOKENIZERS:
        raise ModelError(
            f"{path}: GGUF pre-tokenizer {pre!r} is not supported; "
            f"only {', '.join(_PRE_TOKENIZERS)} are: use a Hugging Face folder"
        )
    merges = metadata.get("tokenizer.ggml.merges")
    if not isinstance(merges, list):
        raise ModelError(f"{path}: the GGUF tokenizer has no merges; download the file again")
    # Llama 3's vocabulary holds whole words that its merges don't reach; a match in it wins.
    ignore_merges = pre in ("llama-bpe", "llama3", "llama-v3", "tekken")
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
    unknown = metadata.get("tokenizer.ggml.unknown_token_id")
    spaces: list[dict[str, Any]] = [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefix:
        spaces.insert(0, {"type": "Prepend", "prepend": "▁"})
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    model = _bpe(tokens, _merges_from_scores(tokens, scores, types), byte_fallback=True, fuse_unk=True)
    model["unk_token"] = tokens[unknown] if isinstance(unknown, int) and 0 <= unknown < len(tokens) else None
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
