"""What the decoder must know about a checkpoint, read from a Hugging Face ``config.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatkv.files import MIB, UnreadableError, read_text
from chatkv.model.errors import ModelError

MAX_BYTES = 64 * MIB
"""Of a JSON file of a model; the largest tokenizers have about half of it."""

ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")
"""``model_type`` values with the Llama shape (SmolLM2 is ``llama``)."""

ROPE_TYPES = ("default", "linear", "llama3")


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary position embedding (RoFormer, arXiv 2104.09864), with the scalings that checkpoints use.

    ``kind``: ``default``; ``linear`` (positions divided by ``factor``); ``llama3`` (low frequencies
    divided by ``factor``, high ones kept, a smooth step between; Llama 3.1).
    """

    theta: float
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position: int = 8192


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """Sizes and switches of a Llama-shape decoder."""

    model_type: str
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    vocab: int
    max_position: int
    """Longest context in tokens: the trained length, or the sliding window where it is shorter."""
    rope: RopeConfig
    rms_norm_eps: float
    tie_embeddings: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    """Qwen3: an RMS norm over each head of q and k, before RoPE."""
    eos_ids: frozenset[int]
    """Ids that end an answer, from ``config.json`` and ``generation_config.json``."""

    @classmethod
    def load(cls, folder: Path) -> DecoderConfig:
        """Read ``config.json`` (and ``generation_config.json`` where there is one) of ``folder``.

        Raises ModelError where a file is missing, unreadable or not JSON, where a field is missing or
        senseless, and where the checkpoint needs something this decoder lacks.
        """
        raw = _Fields(read_json(folder / "config.json"), folder / "config.json")
        model_type = raw.data.get("model_type")
        if model_type not in ARCHITECTURES:
            raise ModelError(
                f"{folder}: architecture {model_type!r} is not supported; "
                f"use a model whose model_type is one of {', '.join(ARCHITECTURES)}"
            )
        if raw.data.get("quantization_config"):
            raise ModelError(
                f"{folder}: quantised checkpoints are not supported; "
                "use the plain bf16 or fp32 one, or a GGUF file"
            )
        if raw.data.get("hidden_act", "silu") not in ("silu", "swish"):
            raise ModelError(
                f"{folder}: activation {raw.data['hidden_act']!r} is not supported; only silu is"
            )
        num_heads = raw.integer("num_attention_heads")
        num_kv_heads = raw.integer("num_key_value_heads", num_heads)
        hidden = raw.integer("hidden_size")
        head_dim = raw.integer("head_dim", hidden // num_heads)
        if num_heads % num_kv_heads:
            raise ModelError(f"{raw.path}: {num_heads} heads can't share {num_kv_heads} KV heads evenly")
        if head_dim % 2:
            raise ModelError(f"{raw.path}: head_dim {head_dim} is odd; RoPE needs an even one")
        max_position = raw.integer("max_position_embeddings", 2048)
        bias = bool(raw.data.get("attention_bias", False))
        generation = folder / "generation_config.json"
        eos = _ids(raw.data.get("eos_token_id"))
        if generation.is_file():
            eos |= _ids(read_json(generation).get("eos_token_id"))
        return cls(
            model_type=model_type,
            num_layers=raw.integer("num_hidden_layers"),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            hidden=hidden,
            intermediate=raw.integer("intermediate_size"),
            vocab=raw.integer("vocab_size"),
            max_position=min(max_position, _window(raw, max_position)),
            rope=_rope(raw, max_position),
            rms_norm_eps=raw.number("rms_norm_eps", 1e-6),
            tie_embeddings=bool(raw.data.get("tie_word_embeddings", False)),
            qkv_bias=model_type == "qwen2" or (bias and model_type != "mistral"),
            o_bias=bias and model_type in ("llama", "qwen3"),
            mlp_bias=model_type == "llama" and bool(raw.data.get("mlp_bias", False)),
            qk_norm=model_type == "qwen3",
            eos_ids=frozenset(eos),
        )


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``; raises ModelError where there is none."""
    try:
        if not path.exists():
            raise ModelError(f"{path} is missing; give a complete Hugging Face model folder")
        data = json.loads(read_text(path, MAX_BYTES))
    except UnreadableError as error:
        raise ModelError(f"{path} {error}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not valid JSON ({error}); download it again") from None
    if not isinstance(data, dict):
        raise ModelError(f"{path} must hold a JSON object; download it again")
    return data


@dataclass(frozen=True, slots=True)
class _Fields:
    """Checked access to a parsed ``config.json``."""

    data: dict[str, Any]
    path: Path

    def integer(self, name: str, default: int | None = None) -> int:
        value = self.data.get(name)
        if value is None:
            value = default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelError(f"{self.path}: {name} must be a positive integer, got {value!r}")
        return value

    def number(self, name: str, default: float) -> float:
        return positive(self.data.get(name, default), name, self.path)


def positive(value: Any, name: str, path: Path) -> float:
    """``value`` as a float above 0; raises ModelError naming ``name`` in ``path``."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise ModelError(f"{path}: {name} must be a positive number, got {value!r}")
    return float(value)


def _ids(value: Any) -> set[int]:
    values = value if isinstance(value, list) else [value]
    return {v for v in values if isinstance(v, int) and not isinstance(v, bool)}


def _window(raw: _Fields, max_position: int) -> int:
    """A sliding-window layer sees the last ``sliding_window`` tokens: up to there it is full attention."""
    kinds = set(raw.data.get("layer_types") or ()) - {"full_attention", "sliding_attention"}
    if kinds:
        raise ModelError(
            f"{raw.path}: layers of type {sorted(kinds)[0]!r} are not supported; only full attention is"
        )
    used = raw.data.get("use_sliding_window", raw.data["model_type"] == "mistral")
    if not used or raw.data.get("sliding_window") is None:
        return max_position
    return raw.integer("sliding_window")


def _rope(raw: _Fields, max_position: int) -> RopeConfig:
    """``rope_parameters`` (transformers 5) or ``rope_theta`` and ``rope_scaling`` (before)."""
    merged: dict[str, Any] = {}
    for name in ("rope_scaling", "rope_parameters"):
        part = raw.data.get(name)
        if part is not None and not isinstance(part, dict):
            raise ModelError(f"{raw.path}: {name} must be an object, got {part!r}")
        merged |= part or {}
    kind = merged.get("rope_type", merged.get("type")) or "default"
    if kind not in ROPE_TYPES:
        raise ModelError(
            f"{raw.path}: RoPE scaling {kind!r} is not supported; only {', '.join(ROPE_TYPES)} are"
        )
    if merged.get("partial_rotary_factor", raw.data.get("partial_rotary_factor", 1.0)) not in (1, None):
        raise ModelError(f"{raw.path}: partial rotary embeddings are not supported")
    theta = positive(merged.get("rope_theta", raw.data.get("rope_theta") or 10000.0), "rope_theta", raw.path)
    if kind == "default":
        return RopeConfig(theta)
    factor = positive(merged.get("factor"), "RoPE factor", raw.path)
    if kind == "linear":
        return RopeConfig(theta, kind, factor)
    original = positive(
        merged.get("original_max_position_embeddings", max_position),
        "original_max_position_embeddings",
        raw.path,
    )
    low = positive(merged.get("low_freq_factor"), "low_freq_factor", raw.path)
    high = positive(merged.get("high_freq_factor"), "high_freq_factor", raw.path)
    if low >= high:
        raise ModelError(f"{raw.path}: low_freq_factor {low} must be below high_freq_factor {high}")
    return RopeConfig(theta, kind, factor, low, high, int(original))
