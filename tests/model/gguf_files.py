"""Small GGUF files, written with the gguf package from a transformers model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from tokenizers import Tokenizer

from tests.model.templates import CHATML, CHATML_SPECIAL, byte_level
from tests.model.tiny import reference

TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def permute(rows: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to q and k of llama models."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(
    path: Path,
    name: str = "llama",
    tokenizer: Tokenizer | None = None,
    pre: str = "llama-bpe",
    quantised: gguf.GGMLQuantizationType | None = None,
    extra: dict[str, Any] | None = None,
    tensors: dict[str, np.ndarray] | None = None,
) -> transformers.PreTrainedModel:
    """Write model ``name`` of ``tiny.CONFIGS``; 2-D weights ``quantised`` where their rows allow it."""
    model = reference(name)
    config = model.config
    architecture = {"mistral": "llama"}.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    add_byte_level(writer, tokenizer or byte_level(CHATML_SPECIAL, []), pre)
    for key, value in (extra or {}).items():
        writer.kv_data[0].pop(key, None)  # it takes the place of what the model says
        if value is None:
            continue
        if isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        else:
            writer.add_uint32(key, value)
    state = {k: v.numpy().astype(np.float32) for k, v in model.state_dict().items()}
    if config.tie_word_embeddings:
        state.pop("lm_head.weight")
    for hf_name, data in state.items():
        stem, kind = hf_name.rsplit(".", 1)
        if stem in TOP:
            gguf_name = f"{TOP[stem]}.{kind}"
        else:
            _, _, layer, part = stem.split(".", 3)
            gguf_name = f"blk.{layer}.{LAYER[part]}.{kind}"
        if architecture == "llama" and ".attn_q." in gguf_name:
            data = permute(data, config.num_attention_heads)
        elif architecture == "llama" and ".attn_k." in gguf_name:
            data = permute(data, config.num_key_value_heads)
        if quantised is not None and data.ndim == 2 and data.shape[1] % 32 == 0:
            packed = gguf.quants.quantize(data, quantised)
            writer.add_tensor(gguf_name, packed, raw_dtype=quantised)
        else:
            writer.add_tensor(gguf_name, data)
    for key, data in (tensors or {}).items():
        writer.add_tensor(key, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model


def add_byte_level(writer: gguf.GGUFWriter, tokenizer: Tokenizer, pre: str) -> None:
    content = json.loads(tokenizer.to_str())
    names = {i: token for token, i in tokenizer.get_vocab(with_added_tokens=True).items()}
    added = {t["id"]: t for t in content["added_tokens"]}
    kinds = [gguf.TokenType.NORMAL] * len(names)
    for i, token in added.items():
        kinds[i] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([names[i] for i in range(len(names))])
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in content["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.token_to_id("<|im_end|>"))
    writer.add_bos_token_id(tokenizer.token_to_id("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHATML)


def as_bf16(model: transformers.PreTrainedModel) -> dict[str, torch.Tensor]:
    return {k: v.to(torch.bfloat16) for k, v in model.state_dict().items()}
