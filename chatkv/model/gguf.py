"""A GGUF file → a Hugging Face folder: bf16 safetensors, config.json, tokenizer.json.

Weights come out bit-identical to transformers' own GGUF loading in bf16. llama.cpp's converter
permutes the rows of q and k of ``llama`` models to its interleaved RoPE; that is undone here.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chatkv.model.errors import ModelError
from chatkv.model.gguf_header import read_header
from chatkv.model.gguf_tokenizer import stop_ids, tokenizer_files, tokenizer_notes
from chatkv.model.known_keys import GGUF, GGUF_FILE, note_of
from chatkv.model.store import require_space
from chatkv.text import one_line

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
"""``general.architecture`` (Mistral is ``llama`` there) → the Hugging Face class."""

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Llama 3.1 and 3.2 GGUFs carry their RoPE scaling as a tensor of divisors, not as numbers.
_LLAMA3_ROPE = [
    {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    for factor in (8.0, 32.0)
]


class GgufFile:
    """Metadata and tensors of a GGUF file; raises ModelError where it is broken or unsupported."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata, self.tensors = read_header(path)
        self._check_kind()
        architecture = self.metadata.get("general.architecture")
        if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
            raise ModelError(
                f"{path}: GGUF architecture {one_line(repr(architecture), 60)} is not supported; "
                f"use one of {', '.join(ARCHITECTURES)}"
            )
        self.architecture: str = architecture

    def _check_kind(self) -> None:
        """Raise ModelError where the file is a part of a model only."""
        count = self.metadata.get("split.count", 1)
        if isinstance(count, int) and count > 1:
            raise ModelError(
                f"{self.path} is one of {count} parts of a model: join them with 'llama-gguf-split --merge "
                "FIRST-PART.gguf WHOLE.gguf', and give the whole one"
            )
        kind = self.metadata.get("general.type", "model")
        if kind != "model":
            raise ModelError(
                f"{self.path} holds no model but a part of one ({one_line(str(kind), 40)}): give the model's "
                "own GGUF file, with an adapter merged into it"
            )

    def unknown_keys(self) -> list[str]:
        """The keys that nothing here knows; raises ModelError for one that asks for other arithmetic."""
        prefix = f"{self.architecture}."
        own = {k.removeprefix(prefix): v for k, v in self.metadata.items() if k.startswith(prefix)}
        rest = {k: v for k, v in self.metadata.items() if not k.startswith(prefix)}
        where = f"{self.path}: GGUF metadata"
        return [prefix + key for key in GGUF.check(own, where)] + list(GGUF_FILE.check(rest, where))

    def value(self, name: str, default: Any = None) -> Any:
        """``<architecture>.<name>`` raises ModelError without one and without ``default``."""
        value = self.metadata.get(f"{self.architecture}.{name}", default)
        if value is None:
            raise ModelError(
                f"{self.path}: GGUF metadata {self.architecture}.{name} is missing; download it again"
            )
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """``<architecture>.<name>``, a whole number above 0; else ModelError."""
        value = self.value(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelError(
                f"{self.path}: GGUF metadata {self.architecture}.{name} must be a whole number above 0, "
                f"got {one_line(repr(value), 60)}; use another file"
            )
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """``<architecture>.<name>``, finite; else ModelError."""
        value = self.value(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise ModelError(
                f"{self.path}: GGUF metadata {self.architecture}.{name} must be a number, "
                f"got {one_line(repr(value), 60)}; use another file"
            )
        return float(value)

    def dequantized(self, name: str) -> npt.NDArray[np.float32]:
        """The tensor ``name`` in fp32, in its row-major shape."""
        from gguf import GGMLQuantizationType, dequantize

        tensor = self.tensors[name]
        try:
            values = dequantize(tensor.data, GGMLQuantizationType(tensor.kind))
            return np.ascontiguousarray(values, dtype=np.float32).reshape(tensor.shape[::-1])
        except (NotImplementedError, ValueError) as error:
            raise ModelError(
                f"{self.path}: tensor {name} can't be unpacked ({error}); use another quantisation"
            ) from None


def convert(path: Path, folder: Path, progress: Callable[[float], None]) -> None:
    """Write ``config.json``, ``model.safetensors`` (bf16), ``tokenizer.json``, ``tokenizer_config.json``.

    ``progress`` is called with the fraction of the weights that are written. Raises ModelError, also
    where what was written is no whole model.
    """
    try:
        _write(GgufFile(path), folder, progress)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Metadata and tensors come from outside and may be of any kind, size and shape.
        reason = one_line(f"{type(error).__name__}: {error}", 120)
        raise ModelError(f"{path} can't be converted ({reason}); use another file") from error
    try:
        _check(folder)
    except ModelError as error:
        # The folder is a passing one: what is wrong is the file.
        reason = str(error).replace(f"{folder}: ", "").replace(f"{folder}/", "")
        raise ModelError(f"{path} makes no model that can run: {reason}") from error


def _check(folder: Path) -> None:
    """Raise ModelError where the model in ``folder`` could not be loaded; takes no memory for weights."""
    import torch

    from chatkv.model.checkpoint import load_weights
    from chatkv.model.config import DecoderConfig
    from chatkv.model.tokenizer import Codec

    load_weights(folder, DecoderConfig.load(folder), torch.bfloat16, "meta")
    Codec.load(folder)


def _write(source: GgufFile, folder: Path, progress: Callable[[float], None]) -> None:
    names = {name: _hf_name(source, name) for name in source.tensors if name != "rope_freqs.weight"}
    config = _config(source)
    told = [*note_of(source.unknown_keys(), "the GGUF file"), *tokenizer_notes(source.metadata)]
    if told:
        config["chatkv_notes"] = told
    for file, content in tokenizer_files(source.metadata, source.path).items():
        (folder / file).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    _write_safetensors(source, names, config, folder / "model.safetensors", progress)


def _hf_name(source: GgufFile, name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _TOP and kind == "weight":
        return f"{_TOP[stem]}.{kind}"
    parts = stem.split(".")
    if len(parts) == 3 and parts[0] == "blk" and parts[1].isdigit() and parts[2] in _LAYER:
        return f"model.layers.{parts[1]}.{_LAYER[parts[2]]}.{kind}"
    raise ModelError(
        f"{source.path}: tensor {name} is not part of a plain {source.architecture} model; "
        "mixture-of-experts and other variants are not supported"
    )


def _config(source: GgufFile) -> dict[str, Any]:
    heads = source.integer("attention.head_count")
    hidden = source.integer("embedding_length")
    head_dim = source.integer("attention.key_length", hidden // heads)
    for name in ("attention.value_length", "rope.dimension_count"):
        # Values of another width than keys, RoPE on a part of a head: llama.cpp has them in some models.
        if source.integer(name, head_dim) != head_dim:
            raise ModelError(
                f"{source.path}: GGUF metadata {source.architecture}.{name} {source.integer(name)} is not "
                f"supported, only the {head_dim} that its heads have is; use another model"
            )
    metadata = source.metadata
    config: dict[str, Any] = {
        "architectures": [ARCHITECTURES[source.architecture]],
        "model_type": source.architecture,
        "dtype": "bfloat16",
        "num_hidden_layers": source.integer("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": source.integer("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "hidden_size": hidden,
        "intermediate_size": source.integer("feed_forward_length"),
        "max_position_embeddings": source.integer("context_length"),
        "rms_norm_eps": source.number("attention.layer_norm_rms_epsilon"),
        "rope_parameters": _rope(source, head_dim),
        "vocab_size": source.tensors["token_embd.weight"].shape[-1]
        if "token_embd.weight" in source.tensors
        else 0,
        "tie_word_embeddings": "output.weight" not in source.tensors,
        "hidden_act": "silu",
        "attention_bias": source.architecture != "qwen2" and "blk.0.attn_q.bias" in source.tensors,
        "mlp_bias": source.architecture == "llama" and "blk.0.ffn_down.bias" in source.tensors,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": stop_ids(metadata),
    }
    if metadata.get(f"{source.architecture}.attention.sliding_window"):
        window = source.integer("attention.sliding_window")
        config |= {"sliding_window": window, "use_sliding_window": True, "max_window_layers": 0}
        if source.architecture == "llama":  # of those that are ``llama`` in a GGUF, Mistral has windows
            config |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
            del config["use_sliding_window"], config["max_window_layers"]
    return config


def _rope(source: GgufFile, head_dim: int) -> dict[str, Any]:
    """As llama.cpp: a factor without a type (of the old key, too) is linear, one of type ``none`` is none."""
    theta = source.number("rope.freq_base", 10000.0)
    kind = source.value("rope.scaling.type", "linear")
    if kind not in ("none", "linear"):
        shown = one_line(repr(kind), 60)
        raise ModelError(f"{source.path}: RoPE scaling {shown} is not supported; only linear and llama3 are")
    factor = 1.0
    if kind == "linear":
        factor = source.number("rope.scaling.factor", source.number("rope.scale_linear", 0.0)) or 1.0
    divisors = np.ones(1)
    if "rope_freqs.weight" in source.tensors:
        divisors = np.asarray(source.dequantized("rope_freqs.weight").ravel(), dtype=np.float64)
    if np.allclose(divisors, 1):
        if factor == 1:
            return {"rope_type": "default", "rope_theta": theta}
        return {"rope_type": "linear", "factor": factor, "rope_theta": theta}
    if factor != 1 or source.architecture != "llama":
        raise ModelError(
            f"{source.path}: rope_freqs beside another RoPE scaling, or in a model other than "
            "llama, are not supported; use a Hugging Face folder"
        )
    for candidate in _LLAMA3_ROPE:
        want = _llama3_divisors(candidate, theta, head_dim)
        if divisors.shape == want.shape and np.allclose(divisors, want, rtol=1e-3):
            return candidate | {"rope_theta": theta}
    raise ModelError(
        f"{source.path}: its rope_freqs are neither Llama 3.1's nor 3.2's; use a Hugging Face folder"
    )


def _llama3_divisors(rope: dict[str, Any], theta: float, head_dim: int) -> npt.NDArray[np.float64]:
    frequencies = 1.0 / theta ** (np.arange(0, head_dim, 2) / head_dim)
    cycles = rope["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    smooth = np.clip(
        (cycles - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"]), 0, 1
    )
    return np.asarray(1 / ((1 - smooth) / rope["factor"] + smooth))


def _write_safetensors(
    source: GgufFile,
    names: dict[str, str],
    config: dict[str, Any],
    path: Path,
    progress: Callable[[float], None],
) -> None:
    """One tensor at a time, so that memory stays at the largest tensor's size."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, hf_name in names.items():
        shape = source.tensors[name].shape[::-1]
        start, end = end, end + 2 * math.prod(shape)
        header[hf_name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    require_space(path.parent, end)
    written = 0
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(encoded)) + encoded)
        for name in names:
            data = source.dequantized(name)
            if source.architecture == "llama" and ".attn_q." in name:
                data = _unpermute(source, name, data, config["num_attention_heads"])
            elif source.architecture == "llama" and ".attn_k." in name:
                data = _unpermute(source, name, data, config["num_key_value_heads"])
            out.write(_bf16(data).tobytes())
            written += 2 * data.size
            progress(written / end)


def _unpermute(
    source: GgufFile, name: str, data: npt.NDArray[np.float32], heads: int
) -> npt.NDArray[np.float32]:
    """Interleaved RoPE rows → half-split rows, a head at a time. Raises ModelError."""
    if data.shape[0] % (2 * heads):
        raise ModelError(
            f"{source.path}: tensor {name} has {data.shape[0]} rows, which {heads} heads can't share evenly"
        )
    half = data.shape[0] // heads // 2
    return data.reshape(heads, half, 2, *data.shape[1:]).swapaxes(1, 2).reshape(data.shape)


def _bf16(data: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """fp32 → bf16 bits, rounded to nearest even."""
    bits = data.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
