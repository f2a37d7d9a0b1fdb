"""What a checkpoint says is computed as transformers computes it, refused, or told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from chatkv.engine.compute import build
from chatkv.model.config import DecoderConfig
from chatkv.model.decoder import Decoder
from chatkv.model.errors import ModelError
from tests.model.tiny import CONFIGS, SIZES, Requests, full_logits, save

PROMPT = np.random.default_rng(3).integers(0, SIZES["vocab_size"], 100).tolist()
WINDOW = 24


def edit(folder: Path, **changes: Any) -> None:
    """Change keys of the config; ``...`` takes one out."""
    file = folder / "config.json"
    config = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({k: v for k, v in config.items() if v is not ...}))


def retensor(folder: Path, **changes: torch.Tensor | None) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file) | {k.replace("__", "."): v for k, v in changes.items()}
    save_file({k: v for k, v in tensors.items() if v is not None}, file, metadata={"format": "pt"})


def theirs(folder: Path, ids: list[int]) -> torch.Tensor:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return full_logits(model, ids)


def ours(folder: Path, ids: list[int]) -> torch.Tensor:
    requests = Requests(Decoder.load(folder, torch.float32), 16, 16)
    return requests.step({requests.open(len(ids)): ids}, every_row=True)


def assert_equal(folder: Path) -> None:
    """All rows of all of the context that is offered, up to the prompt's length, equal transformers'."""
    ids = PROMPT[: DecoderConfig.load(folder).max_position]
    torch.testing.assert_close(ours(folder, ids), theirs(folder, ids), atol=1e-4, rtol=0)


LLAMA3 = {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SWA = {"sliding_window": WINDOW, "use_sliding_window": True}
FULL, SLIDING = ["full_attention"] * 3, ["full_attention", "sliding_attention", "full_attention"]


@pytest.mark.parametrize(
    ("name", "changes", "context"),
    [
        ("llama", {"hidden_act": "swish", "pretraining_tp": 4}, 256),
        ("llama", {"num_key_value_heads": 2, "head_dim": 16, "attention_bias": False}, 256),
        ("llama", {"sliding_window": WINDOW, "use_sliding_window": True}, 256),
        (
            "llama",
            {"attention_bias": ..., "mlp_bias": ..., "tie_word_embeddings": ..., "hidden_act": ...},
            256,
        ),
        ("llama", {"rope_parameters": ..., "rope_theta": 500.0}, 256),
        ("llama", {"rope_parameters": {"rope_type": "default"}, "rope_theta": 500.0}, 256),
        ("llama", {"rope_parameters": {"rope_theta": 70.0}, "rope_theta": 500.0}, 256),
        ("llama", {"rope_parameters": ..., "rope_scaling": {"type": "linear", "factor": 3.0}}, 256),
        ("llama", {"rope_parameters": ..., "rope_scaling": {"rope_type": "linear", "factor": 3.0}}, 256),
        (
            "llama",
            {
                "rope_parameters": ...,
                "rope_scaling": {"rope_type": "linear", "factor": 3.0},
                "rope_theta": 500.0,
            },
            256,
        ),
        (
            "llama",
            {
                "rope_scaling": {"rope_type": "linear", "factor": 2.0},
                "rope_parameters": {"rope_theta": 70.0, "rope_type": "default"},
            },
            256,
        ),
        ("llama", {"rope_parameters": ..., "rope_scaling": {"factor": 3.0}}, 256),
        ("llama", {"rope_parameters": ..., "rope_scaling": LLAMA3}, 256),
        (
            "llama",
            {
                "rope_parameters": LLAMA3 | {"original_max_position_embeddings": 40},
                "original_max_position_embeddings": 20,
            },
            256,
        ),
        ("mistral", {"sliding_window": WINDOW}, WINDOW),
        ("mistral", {"sliding_window": WINDOW, "use_sliding_window": False}, WINDOW),
        ("mistral", {"sliding_window": WINDOW, "layer_types": FULL}, 256),
        ("mistral", {"sliding_window": WINDOW, "layer_types": SLIDING}, WINDOW),
        ("mistral", {"attention_bias": True}, 256),
        *(
            (name, changes, context)
            for name in ("qwen2", "qwen3")
            for changes, context in (
                ({"sliding_window": WINDOW, "use_sliding_window": False, "layer_types": ...}, 256),
                (SWA | {"layer_types": ..., "max_window_layers": 0}, WINDOW),
                (SWA | {"layer_types": ..., "max_window_layers": 2}, WINDOW),
                (SWA | {"layer_types": ..., "max_window_layers": 3}, 256),
                (SWA | {"layer_types": ..., "max_window_layers": ...}, 256),
                (SWA | {"layer_types": FULL, "max_window_layers": 0}, 256),
                (SWA | {"layer_types": SLIDING}, WINDOW),
            )
        ),
        ("qwen2", {"attention_bias": True, "mlp_bias": True}, 256),
    ],
)
def test_logits_are_transformers_with_this_config(
    name: str, changes: dict[str, Any], context: int, tmp_path: Path
) -> None:
    save(name, tmp_path)
    edit(tmp_path, **changes)
    assert DecoderConfig.load(tmp_path).max_position == context
    assert_equal(tmp_path)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_as_transformers_writes_it_has_nothing_to_tell(name: str, tmp_path: Path) -> None:
    save(name, tmp_path)
    notes = DecoderConfig.load(tmp_path).notes
    assert [note for note in notes if "sliding window of 64" not in note] == []
    assert len(notes) == (name == "mistral-window")


def test_a_missing_key_is_transformers_default(tmp_path: Path) -> None:
    """Of each family: what stands for a key that the config does not have."""
    for name, kind in (
        ("llama", transformers.LlamaConfig),
        ("mistral", transformers.MistralConfig),
        ("qwen2", transformers.Qwen2Config),
        ("qwen3", transformers.Qwen3Config),
    ):
        heads = {"num_attention_heads": 64, "hidden_size": 128, "vocab_size": 9, "intermediate_size": 8}
        config = {"model_type": name, "num_hidden_layers": 2} | heads
        (tmp_path / "config.json").write_text(json.dumps(config))
        got, want = DecoderConfig.load(tmp_path), kind(num_hidden_layers=2, **heads)
        window = getattr(want, "sliding_window", None)
        assert got.num_kv_heads == want.num_key_value_heads
        assert got.head_dim == getattr(want, "head_dim", 2)
        assert got.max_position == min(want.max_position_embeddings, window or want.max_position_embeddings)
        assert got.rms_norm_eps == want.rms_norm_eps
        assert got.tie_embeddings == want.tie_word_embeddings
        assert got.rope.theta == want.rope_parameters["rope_theta"]


def test_a_head_beside_a_tied_embedding_is_used_where_it_differs(tmp_path: Path) -> None:
    save("llama-tied-one-kv-head", tmp_path)
    embedding = load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"]
    retensor(tmp_path, lm_head__weight=embedding.clone())
    assert_equal(tmp_path)
    weights = Decoder.load(tmp_path, torch.float32).weights
    assert weights.head.weight is weights.embedding
    assert not weights.notes
    retensor(tmp_path, lm_head__weight=torch.randn(97, 48, generator=torch.Generator().manual_seed(1)))
    assert_equal(tmp_path)
    notes = build(tmp_path, "fp32", "torch").notes
    assert [note for note in notes if "lm_head.weight" in note and "\n" not in note]


def test_a_tied_file_with_the_head_alone(tmp_path: Path) -> None:
    save("llama-tied-one-kv-head", tmp_path)
    embedding = load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"]
    retensor(tmp_path, model__embed_tokens__weight=None, lm_head__weight=embedding)
    assert_equal(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"is_causal": False},
        {"logit_scale": 0.5},
        {"logits_scaling": 8.0},
        {"attention_multiplier": 0.1},
        {"final_logit_softcapping": 30.0},
        {"attn_logit_softcapping": 50.0},
        {"query_pre_attn_scalar": 256},
        {"partial_rotary_factor": 0.5},
        {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
        {"hidden_activation": "gelu"},
        {"num_local_experts": 8},
        {"rope_interleaved": True},
        {"no_rope_layers": [1, 0]},
        {"use_mrope": True},
        {"clip_qkv": 8},
        {"pruned_heads": {"0": [1]}},
        {"vision_config": {"x": 1}},
    ],
)
def test_what_would_change_the_arithmetic_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    save("llama", tmp_path)
    edit(tmp_path, **changes)
    key = "partial_rotary_factor" if "rope_parameters" in changes else next(iter(changes))
    with pytest.raises(ModelError, match=rf"config\.json: {key} .* is not supported") as caught:
        DecoderConfig.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_neutral_values_say_nothing(tmp_path: Path) -> None:
    save("llama", tmp_path)
    edit(
        tmp_path,
        is_causal=True,
        logit_scale=1.0,
        final_logit_softcapping=None,
        partial_rotary_factor=1.0,
        num_local_experts=0,
        use_mrope=False,
        rope_interleaved=False,
        never_heard_of=None,
        _internal=5,
        **{"transformers.js_config": {"kv_cache_dtype": {}}},
    )
    assert DecoderConfig.load(tmp_path).notes == ()


def test_unknown_keys_are_told_in_one_line(tmp_path: Path) -> None:
    save("mistral", tmp_path)
    edit(tmp_path, mup_width=3, zeta=False, attention_bias=True, **{"a\nb": 1})
    (note,) = DecoderConfig.load(tmp_path).notes
    assert note == "config.json: not known here and not used: a b, attention_bias, mup_width, zeta"
    edit(tmp_path, **{f"k{i}": i for i in range(50)})
    (note,) = DecoderConfig.load(tmp_path).notes
    assert note.endswith("and 48 more")
    assert note in build(tmp_path, "fp32", "torch").notes


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("config.json", {"auto_map": {"AutoModelForCausalLM": "x.Y"}}, "auto_map"),
        ("adapter_config.json", {"peft_type": "LORA"}, "adapter"),
        ("config.json", {"rope_scaling": {"factor": 4.0}, "rope_parameters": ...}, "without a rope_type"),
    ],
)
def test_what_lies_beside_and_is_not_used_is_told(
    file: str, content: dict[str, Any], says: str, tmp_path: Path
) -> None:
    save("llama", tmp_path)
    if file == "config.json":
        edit(tmp_path, **content)
    else:
        (tmp_path / file).write_text(json.dumps(content))
    (note,) = DecoderConfig.load(tmp_path).notes
    assert says in note


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("qwen3", {"layer_types": SLIDING, "use_sliding_window": False}, "no window is in use"),
        ("qwen3", {"layer_types": 5}, "layer_types must be a list"),
        ("qwen3", {"layer_types": [["x"]]}, "layer_types must be a list"),
        ("qwen3", {"use_sliding_window": "yes"}, "use_sliding_window must be true or false"),
        ("llama", {"tie_word_embeddings": "false"}, "tie_word_embeddings must be true or false"),
        ("qwen3", SWA | {"layer_types": ..., "max_window_layers": "2"}, "max_window_layers must be"),
        (
            "qwen3",
            {
                **SWA,
                "layer_types": SLIDING,
                "rope_parameters": {
                    "full_attention": {"rope_theta": 1e6},
                    "sliding_attention": {"rope_theta": 1e4},
                },
            },
            "differs by kind of layer",
        ),
        ("llama", {"quantization": {"bits": 4, "group_size": 64}}, "this folder is MLX's"),
        ("llama", {"quantization_config": {"quant_method": "awq"}}, "this one is awq"),
    ],
)
def test_senseless_values_are_one_line(name: str, changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    save(name, tmp_path)
    edit(tmp_path, **changes)
    with pytest.raises(ModelError, match=says):
        DecoderConfig.load(tmp_path)


def test_rope_by_kind_of_layer_where_one_kind_is_used(tmp_path: Path) -> None:
    save("qwen3", tmp_path)
    nested = {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0}}
    edit(tmp_path, rope_parameters=nested | {"sliding_attention": {"rope_theta": 7.0}})
    rope = DecoderConfig.load(tmp_path).rope
    assert (rope.kind, rope.factor, rope.theta) == ("linear", 2.0, 50.0)


@pytest.mark.parametrize(
    "tensor",
    [
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.0.self_attn.k_proj.bias",
        "model.layers.0.mlp.down_proj.bias",
        "model.layers.3.input_layernorm.weight",
        "lm_head.bias",
        "model.layers.0.self_attn.sinks",
    ],
)
def test_tensors_that_nothing_reads_are_refused(tensor: str, tmp_path: Path) -> None:
    save("llama", tmp_path)
    retensor(tmp_path, **{tensor.replace(".", "__"): torch.zeros(48)})
    with pytest.raises(ModelError, match=f"tensor {tensor} is not part of"):
        Decoder.load(tmp_path, torch.float32)
