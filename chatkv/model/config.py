"""What the decoder must know about a checkpoint, read from a Hugging Face ``config.json``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chatkv.documents import DocumentError, parse_json
from chatkv.files import MIB, UnreadableError, read_text
from chatkv.model.errors import ModelError
from chatkv.model.known_keys import check_config, note_of
from chatkv.model.lfs import refuse_pointer
from chatkv.text import one_line

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
    """Longest context in tokens: the trained length, or the sliding window of a layer that is shorter."""
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
    notes: tuple[str, ...] = ()
    """What of the checkpoint is not computed with, and what was assumed: one line each, for a person."""

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
        if raw.data.get("quantization_config") or raw.data.get("quantization"):
            raise ModelError(
                f"{folder}: quantised checkpoints are not supported{_maker(raw)}; "
                "use the plain bf16 or fp32 one, or a GGUF file"
            )
        if raw.data.get("hidden_act", "silu") not in ("silu", "swish"):
            raise ModelError(
                f"{folder}: activation {raw.data['hidden_act']!r} is not supported; only silu is"
            )
        defaults = _DEFAULTS[model_type]
        num_heads = raw.integer("num_attention_heads")
        num_kv_heads = raw.integer("num_key_value_heads", defaults.kv_heads or num_heads)
        hidden = raw.integer("hidden_size")
        head_dim = raw.integer("head_dim", defaults.head_dim or hidden // num_heads)
        if num_heads % num_kv_heads:
            raise ModelError(f"{raw.path}: {num_heads} heads can't share {num_kv_heads} KV heads evenly")
        if head_dim % 2:
            raise ModelError(f"{raw.path}: head_dim {head_dim} is odd; RoPE needs an even one")
        num_layers = raw.integer("num_hidden_layers")
        max_position = raw.integer("max_position_embeddings", defaults.max_position)
        window = _window(raw, model_type, num_layers)
        rope = _rope_parameters(raw)
        unknown = check_config(raw.data, rope, model_type, str(raw.path))
        bias = raw.flag("attention_bias")
        generation = folder / "generation_config.json"
        eos = _ids(raw.data.get("eos_token_id"))
        if generation.is_file():
            eos |= _ids(read_json(generation).get("eos_token_id"))
        return cls(
            model_type=model_type,
            num_layers=num_layers,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            hidden=hidden,
            intermediate=raw.integer("intermediate_size"),
            vocab=raw.integer("vocab_size"),
            max_position=min(max_position, window or max_position),
            rope=_rope(raw, rope, max_position),
            rms_norm_eps=raw.number("rms_norm_eps", 1e-6),
            tie_embeddings=raw.flag("tie_word_embeddings"),
            qkv_bias=model_type == "qwen2" or (bias and model_type != "mistral"),
            o_bias=bias and model_type in ("llama", "qwen3"),
            mlp_bias=model_type == "llama" and raw.flag("mlp_bias"),
            qk_norm=model_type == "qwen3",
            eos_ids=frozenset(eos),
            notes=(*_notes(raw, rope, max_position, window), *note_of(unknown, "config.json")),
        )


class _Defaults(NamedTuple):
    """What transformers takes where a ``config.json`` has no such key; None: it follows from others."""

    max_position: int
    kv_heads: int | None = None
    head_dim: int | None = None
    window: int | None = None


_DEFAULTS = {
    "llama": _Defaults(2048),
    "mistral": _Defaults(131072, kv_heads=8, window=4096),
    "qwen2": _Defaults(32768, kv_heads=32, window=4096),
    "qwen3": _Defaults(32768, kv_heads=32, head_dim=128, window=4096),
}


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``; raises ModelError where there is none."""
    try:
        if not path.exists():
            raise ModelError(f"{path} is missing; give a complete Hugging Face model folder")
        data = parse_json(read_text(path, MAX_BYTES), constants=True)
    except UnreadableError as error:
        raise ModelError(f"{path} {error}") from None
    except DocumentError as error:
        refuse_pointer(path)
        raise ModelError(f"{path}: {error}; download it again") from None
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

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.data.get(name)
        if value is not None and not isinstance(value, bool):
            raise ModelError(f"{self.path}: {name} must be true or false, got {one_line(repr(value), 60)}")
        return default if value is None else value

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


def _window(raw: _Fields, model_type: str, num_layers: int) -> int | None:
    """The window of the layers that have one: up to there it is full attention. None: no layer has."""
    size = raw.data.get("sliding_window", _DEFAULTS[model_type].window)
    on = model_type == "mistral" or (model_type != "llama" and raw.flag("use_sliding_window"))
    kinds = raw.data.get("layer_types")
    if kinds is None:
        first = 0 if model_type == "mistral" else raw.data.get("max_window_layers", 28)
        if not isinstance(first, int) or isinstance(first, bool) or first < 0:
            raise ModelError(f"{raw.path}: max_window_layers must be a whole number, got {first!r}")
        kinds = ["sliding_attention"] if on and first < num_layers else []
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise ModelError(f"{raw.path}: layer_types must be a list of names, got {one_line(repr(kinds), 60)}")
    if odd := sorted(set(kinds) - {"full_attention", "sliding_attention"}):
        shown = one_line(repr(odd[0]), 60)
        raise ModelError(f"{raw.path}: layers of type {shown} are not supported; only full attention is")
    if model_type == "llama" or "sliding_attention" not in kinds:
        return None
    if not on or size is None:
        if model_type == "mistral":
            return None
        raise ModelError(
            f"{raw.path}: layer_types has sliding_attention, but no window is in use; correct it"
        )
    return raw.integer("sliding_window", size)


def _rope_parameters(raw: _Fields) -> dict[str, Any]:
    """``rope_scaling`` (before transformers 5; it goes first) or ``rope_parameters``, with theta."""
    part: Any = None
    for name in ("rope_scaling", "rope_parameters"):
        value = raw.data.get(name)
        if value is not None and not isinstance(value, dict):
            raise ModelError(f"{raw.path}: {name} must be an object, got {one_line(repr(value), 60)}")
        part = part or value
    nested = {key: value for key, value in (part or {}).items() if key.endswith("_attention")}
    if nested:
        used = set(raw.data.get("layer_types") or ["full_attention"])
        kinds = [value for key, value in nested.items() if key in used]
        if len(kinds) != len(used) or any(k != kinds[0] or not isinstance(k, dict) for k in kinds):
            raise ModelError(f"{raw.path}: RoPE that differs by kind of layer is not supported")
        part = kinds[0]
    return {"rope_theta": raw.data.get("rope_theta") or 10000.0} | (part or {})


def _rope(raw: _Fields, given: dict[str, Any], max_position: int) -> RopeConfig:
    kind = given.get("rope_type", given.get("type")) or "default"
    if kind not in ROPE_TYPES:
        shown = one_line(repr(kind), 60)
        raise ModelError(
            f"{raw.path}: RoPE scaling {shown} is not supported; only {', '.join(ROPE_TYPES)} are"
        )
    theta = positive(given["rope_theta"], "rope_theta", raw.path)
    if kind == "default":
        return RopeConfig(theta)
    factor = positive(given.get("factor"), "RoPE factor", raw.path)
    if kind == "linear":
        return RopeConfig(theta, kind, factor)
    original = positive(
        raw.data.get(
            "original_max_position_embeddings", given.get("original_max_position_embeddings", max_position)
        ),
        "original_max_position_embeddings",
        raw.path,
    )
    low = positive(given.get("low_freq_factor"), "low_freq_factor", raw.path)
    high = positive(given.get("high_freq_factor"), "high_freq_factor", raw.path)
    if low >= high:
        raise ModelError(f"{raw.path}: low_freq_factor {low} must be below high_freq_factor {high}")
    return RopeConfig(theta, kind, factor, low, high, int(original))


def _notes(raw: _Fields, rope: dict[str, Any], max_position: int, window: int | None) -> list[str]:
    notes = []
    if window is not None and window < max_position:
        notes.append(
            f"the context ends at the model's sliding window of {window} tokens (it was made for "
            f"{max_position}): beyond it, windows are not computed"
        )
    if (rope.get("rope_type", rope.get("type")) or "default") == "default" and "factor" in rope:
        notes.append("config.json: a RoPE factor without a rope_type has no effect, as in transformers")
    if raw.data.get("auto_map"):
        notes.append("config.json: the folder's own code (auto_map) is not run; computed as a plain model")
    if (raw.path.parent / "adapter_config.json").is_file():
        notes.append("the adapter in the model's folder is not applied: merge it into the weights to use it")
    told = raw.data.get("chatkv_notes")
    return notes + [one_line(str(note), 400) for note in (told if isinstance(told, list) else [])]


def _maker(raw: _Fields) -> str:
    """Whose quantisation it is, where that is told."""
    method = raw.data.get("quantization_config")
    if isinstance(raw.data.get("quantization"), dict):
        return " (this folder is MLX's)"
    name = method.get("quant_method") if isinstance(method, dict) else None
    return f" (this one is {one_line(name, 40)})" if isinstance(name, str) else ""
