from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from chatkv.model.config import DecoderConfig, RopeConfig
from chatkv.model.dtype import auto_dtype, dtype_name, parse_dtype
from chatkv.model.errors import ModelError

GOOD: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 512,
    "eos_token_id": 2,
}


def load(folder: Path, **changes: Any) -> DecoderConfig:
    config = {k: v for k, v in (GOOD | changes).items() if v is not ...}
    (folder / "config.json").write_text(json.dumps(config))
    return DecoderConfig.load(folder)


def test_defaults(tmp_path: Path) -> None:
    config = load(tmp_path, num_key_value_heads=...)
    assert config.num_kv_heads == 4
    assert config.head_dim == 16
    assert config.rope == RopeConfig(10000.0)
    assert config.max_position == 512
    assert not config.tie_embeddings
    assert config.eos_ids == {2}


def test_rope_is_read_in_the_old_and_the_new_spelling(tmp_path: Path) -> None:
    scaling = {
        "factor": 8,
        "low_freq_factor": 1,
        "high_freq_factor": 4,
        "original_max_position_embeddings": 128,
    }
    want = RopeConfig(5e5, "llama3", 8.0, 1.0, 4.0, 128)
    assert load(tmp_path, rope_theta=5e5, rope_scaling={"rope_type": "llama3", **scaling}).rope == want
    assert load(tmp_path, rope_parameters={"rope_theta": 5e5, "rope_type": "llama3", **scaling}).rope == want
    assert load(tmp_path, rope_scaling={"type": "linear", "factor": 2}).rope == RopeConfig(1e4, "linear", 2.0)


def test_a_sliding_window_caps_the_context(tmp_path: Path) -> None:
    assert load(tmp_path, model_type="mistral", sliding_window=100).max_position == 100
    assert load(tmp_path, model_type="mistral", sliding_window=None).max_position == 512
    assert load(tmp_path, model_type="mistral", sliding_window=4096).max_position == 512
    assert load(tmp_path, model_type="qwen2", sliding_window=100).max_position == 512
    used = {"model_type": "qwen2", "sliding_window": 100, "use_sliding_window": True}
    assert load(tmp_path, **used, max_window_layers=1).max_position == 100
    assert load(tmp_path, **used, max_window_layers=2).max_position == 512


def test_which_biases_and_norms(tmp_path: Path) -> None:
    def flags(**changes: Any) -> tuple[bool, ...]:
        c = load(tmp_path, **changes)
        return c.qkv_bias, c.o_bias, c.mlp_bias, c.qk_norm

    assert flags() == (False, False, False, False)
    assert flags(attention_bias=True, mlp_bias=True) == (True, True, True, False)
    assert flags(model_type="qwen2") == (True, False, False, False)
    assert flags(model_type="qwen3") == (False, False, False, True)


def test_the_generation_config_adds_eos_ids(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 9]}')
    assert load(tmp_path, eos_token_id=[2, 3]).eos_ids == {2, 3, 9}
    assert load(tmp_path, eos_token_id=None).eos_ids == {3, 9}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "gpt2"}, "'gpt2' is not supported.*llama, mistral, qwen2, qwen3"),
        ({"model_type": ...}, "None is not supported"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised"),
        ({"hidden_act": "gelu"}, "'gelu'"),
        (
            {"rope_scaling": {"rope_type": "yarn", "factor": 4}},
            "'yarn' is not supported; only default, linear",
        ),
        ({"rope_scaling": [1]}, "rope_scaling must be an object"),
        ({"rope_scaling": {"type": "linear"}}, "RoPE factor"),
        ({"rope_theta": -1}, "rope_theta"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5 is not supported, only 1 is"),
        ({"hidden_size": ...}, "hidden_size must be a positive integer, got None"),
        ({"hidden_size": "64"}, "hidden_size must be a positive integer, got '64'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_key_value_heads": 3}, "4 heads can't share 3"),
        ({"head_dim": 15}, "odd"),
        ({"rms_norm_eps": "x"}, "rms_norm_eps"),
        ({"layer_types": ["linear_attention"]}, "linear_attention"),
    ],
)
def test_what_is_unsupported_or_senseless_is_named(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        load(tmp_path, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"), [("{", "is not JSON"), ("[]", "JSON object"), (b"\xff\xfe", "is not UTF-8 text")]
)
def test_broken_files(tmp_path: Path, content: str | bytes, says: str) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "config.json").write_bytes(data)
    with pytest.raises(ModelError, match=says):
        DecoderConfig.load(tmp_path)


def test_a_missing_config(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json is missing"):
        DecoderConfig.load(tmp_path)


def test_dtype_names() -> None:
    assert parse_dtype("bf16") == torch.bfloat16
    assert parse_dtype("fp32") == torch.float32
    assert parse_dtype("auto") == auto_dtype()
    assert [parse_dtype("auto", gpu) for gpu in ((9, 0), (8, 0), (7, 5))] == [
        torch.bfloat16,
        torch.bfloat16,
        torch.float16,
    ]
    names = [dtype_name(d) for d in (torch.bfloat16, torch.float32, torch.float16)]
    assert names == ["bf16", "fp32", "fp16"]
    assert [parse_dtype(name) for name in names] == [torch.bfloat16, torch.float32, torch.float16]
    assert parse_dtype("int4") == parse_dtype("int8") == torch.bfloat16
    with pytest.raises(ValueError, match=r"'fp64'.*auto, fp32, bf16, fp16, int8, int4"):
        parse_dtype("fp64")
