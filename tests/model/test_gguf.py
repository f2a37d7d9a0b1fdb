from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, PreTrainedModel
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from chatkv.model.config import DecoderConfig
from chatkv.model.decoder import Decoder
from chatkv.model.errors import ModelError
from chatkv.model.gguf import convert
from tests.model.gguf_files import as_bf16, write_gguf
from tests.model.tiny import Requests, full_logits

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def converted(path: Path, folder: Path) -> Path:
    folder.mkdir()
    convert(path, folder, lambda fraction: None)
    return folder


@pytest.mark.parametrize("name", ["llama", "llama-tied-one-kv-head", "mistral", "qwen2", "qwen3"])
def test_weights_come_out_as_they_went_in(name: str, tmp_path: Path) -> None:
    model = write_gguf(tmp_path / "m.gguf", name)
    folder = converted(tmp_path / "m.gguf", tmp_path / "out")
    weights, want = load_file(folder / "model.safetensors"), as_bf16(model)
    if model.config.tie_word_embeddings:
        want.pop("lm_head.weight")
    assert weights.keys() == want.keys()
    for key in want:
        assert torch.equal(weights[key], want[key]), key


@pytest.mark.parametrize("name", ["llama", "llama-tied-one-kv-head", "mistral", "qwen2", "qwen3"])
def test_the_folder_loads_here_and_in_transformers(name: str, tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", name)
    folder = converted(tmp_path / "m.gguf", tmp_path / "out")
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    requests = Requests(Decoder.load(folder, torch.float32), 16, 2)
    logits = requests.step({requests.open(8): PROMPT})[0]
    torch.testing.assert_close(logits, full_logits(theirs, PROMPT)[-1], atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16"])
def test_quantised_weights_are_unpacked_and_rounded_to_bf16(kind: str, tmp_path: Path) -> None:
    quantised = gguf.GGMLQuantizationType[kind]
    # Heads of 32: the rows of o_proj then hold whole blocks of 32.
    model = write_gguf(tmp_path / "m.gguf", "llama-wide-heads", quantised=quantised)
    folder = converted(tmp_path / "m.gguf", tmp_path / "out")
    rows = model.state_dict()["model.layers.0.self_attn.o_proj.weight"].numpy()
    want = gguf.quants.dequantize(gguf.quants.quantize(rows, quantised), quantised)
    got = load_file(folder / "model.safetensors")["model.layers.0.self_attn.o_proj.weight"]
    assert torch.equal(got, torch.from_numpy(np.array(want, dtype=np.float32)).to(torch.bfloat16))


def transformers_weights(file: Path, folder: Path) -> dict[str, torch.Tensor]:
    """transformers' own reading of a GGUF file, for the architecture that ``folder`` has the config of."""
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    return load_gguf_checkpoint(
        str(file), return_tensors=True, model_to_load=model, torch_dtype=torch.bfloat16
    )["tensors"]


def test_weights_are_those_of_transformers_own_reading(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", "llama-wide-heads", quantised=gguf.GGMLQuantizationType.Q4_1)
    folder = converted(tmp_path / "m.gguf", tmp_path / "out")
    weights = load_file(folder / "model.safetensors")
    theirs = transformers_weights(tmp_path / "m.gguf", folder)
    assert weights.keys() == theirs.keys()
    for key, tensor in weights.items():
        assert torch.equal(tensor, theirs[key].to(torch.bfloat16)), key


@pytest.mark.nightly
@pytest.mark.model
def test_the_real_weights_are_those_of_transformers_own_reading(smollm2_folder: Path) -> None:
    (file,) = smollm2_folder.glob("*.gguf")
    weights = load_file(smollm2_folder / "model.safetensors")
    theirs = transformers_weights(file, smollm2_folder)
    for key, tensor in weights.items():
        assert torch.equal(tensor, theirs[key].to(torch.bfloat16)), key


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    (tmp_path / "out").mkdir()
    seen: list[float] = []
    convert(tmp_path / "m.gguf", tmp_path / "out", seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_config_out_of_the_metadata(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", "qwen3")
    config = DecoderConfig.load(converted(tmp_path / "m.gguf", tmp_path / "out"))
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (3, 6, 2, 16)
    assert (config.hidden, config.intermediate, config.vocab, config.max_position) == (48, 80, 97, 256)
    assert config.qk_norm
    assert not config.qkv_bias


def test_linear_rope(tmp_path: Path) -> None:
    extra = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    write_gguf(tmp_path / "m.gguf", extra=extra)
    rope = DecoderConfig.load(converted(tmp_path / "m.gguf", tmp_path / "out")).rope
    assert (rope.kind, rope.factor) == ("linear", 4.0)


def rounded(model: PreTrainedModel) -> PreTrainedModel:
    """The weights alone: RoPE's frequencies stay fp32."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16).float()
    return model


@pytest.mark.parametrize(
    ("name", "extra", "kind"),
    [
        ("llama", {}, "default"),
        ("llama", {"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}, "default"),
        ("llama", {"llama.rope.scaling.factor": 1.0}, "default"),
        ("llama", {"llama.rope.scaling.factor": 0.0}, "default"),
        ("llama", {"llama.rope.dimension_count": 16, "llama.attention.value_length": 16}, "default"),
        ("llama-rope-linear", {"llama.rope.scaling.factor": 4.0}, "linear"),
        ("llama-rope-linear", {"llama.rope.scale_linear": 4.0}, "linear"),
        (
            "llama-rope-linear",
            {"llama.rope.scaling.factor": 4.0, "llama.rope.scale_linear": 2.0},
            "linear",
        ),
        ("llama-biases", {}, "default"),
    ],
)
def test_logits_are_those_of_the_model_it_was_made_from(
    name: str, extra: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    model = rounded(write_gguf(tmp_path / "m.gguf", name, extra=extra))
    decoder = Decoder.load(converted(tmp_path / "m.gguf", tmp_path / "out"), torch.float32)
    assert decoder.config.rope.kind == kind
    assert decoder.config.notes == ()
    requests = Requests(decoder, 16, 8)
    ids = [i * 31 % 97 for i in range(90)]
    logits = requests.step({requests.open(90): ids}, every_row=True)
    torch.testing.assert_close(logits, full_logits(model, ids), atol=1e-4, rtol=0)


def test_divisors_of_one_are_plain_rope(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", tensors={"rope_freqs.weight": np.ones(8, np.float32)})
    assert DecoderConfig.load(converted(tmp_path / "m.gguf", tmp_path / "out")).rope.kind == "default"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope.dimension_count", 8),
        ("attention.value_length", 32),
        ("attention.causal", False),
        ("logit_scale", 0.5),
        ("attention.scale", 0.1),
        ("final_logit_softcapping", 30.0),
        ("attn_logit_softcapping", 30.0),
        ("residual_scale", 0.2),
        ("embedding_scale", 12.0),
        ("expert_count", 8),
        ("rope.scaling.attn_factor", 1.3),
        ("tensor_data_layout", "reference"),
        ("attention.clamp_kqv", 8.0),
    ],
)
def test_metadata_that_would_change_the_arithmetic_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", extra={f"llama.{key}": value})
    with pytest.raises(ModelError, match=rf"{key} .* is not supported") as caught:
        converted(tmp_path / "m.gguf", tmp_path / "out")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_divisors_beside_other_rope_are_refused(name: str, tmp_path: Path) -> None:
    extra = {"llama.rope.scaling.factor": 2.0} if name == "llama" else {}
    divisors = {"rope_freqs.weight": np.linspace(1, 8, 8, dtype=np.float32)}
    write_gguf(tmp_path / "m.gguf", name, extra=extra, tensors=divisors)
    with pytest.raises(ModelError, match="rope_freqs beside"):
        converted(tmp_path / "m.gguf", tmp_path / "out")


def test_what_the_file_says_and_nothing_knows_is_told(tmp_path: Path) -> None:
    extra = {
        "llama.attention.mystery": 3,
        "tokenizer.ggml.odd": 1,
        "qwen2.rope.freq_base": 7.0,
        "general.finetune": "x",
        "general.sampling.temp": 0.6,
        "quantize.imatrix.file": "y",
        "llama.vocab_size": 97,
        "llama.rope.scaling.original_context_length": 64,
    }
    write_gguf(tmp_path / "m.gguf", extra=extra)
    (note,) = DecoderConfig.load(converted(tmp_path / "m.gguf", tmp_path / "out")).notes
    assert note == (
        "the GGUF file: not known here and not used: "
        "llama.attention.mystery, qwen2.rope.freq_base, tokenizer.ggml.odd"
    )


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_a_missing_pre_tokenizer_is_told(name: str, tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", name, extra={"tokenizer.ggml.pre": None})
    write_gguf(tmp_path / "n.gguf", name, pre="qwen2" if name == "qwen2" else "default")
    folder = converted(tmp_path / "m.gguf", tmp_path / "out")
    (note,) = DecoderConfig.load(folder).notes
    assert "tokenizer.ggml.pre" in note
    assert {"llama": "GPT-2's", "qwen2": "Qwen2's"}[name] in note
    same = converted(tmp_path / "n.gguf", tmp_path / "same")
    assert (folder / "tokenizer.json").read_text() == (same / "tokenizer.json").read_text()
    assert DecoderConfig.load(same).notes == ()


def test_missing_token_types_are_told(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", extra={"tokenizer.ggml.token_type": None})
    (note,) = DecoderConfig.load(converted(tmp_path / "m.gguf", tmp_path / "out")).notes
    assert "control tokens" in note


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"split.count": 3, "split.no": 1}, "is one of 3 parts of a model: join them with 'llama-gguf-split"),
        ({"split.count": 3, "general.architecture": None}, "is one of 3 parts of a model"),
        ({"general.type": "adapter"}, r"a part of one \(adapter\): give the model's own GGUF"),
        ({"general.type": "mmproj", "general.architecture": "clip"}, r"a part of one \(mmproj\)"),
    ],
)
def test_a_part_of_a_model_is_named(extra: dict[str, Any], says: str, tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", extra=extra)
    with pytest.raises(ModelError, match=says):
        converted(tmp_path / "m.gguf", tmp_path / "out")


@pytest.mark.parametrize("name", ["mistral", "qwen2", "qwen3"])
def test_a_window_ends_the_context(name: str, tmp_path: Path) -> None:
    architecture = "llama" if name == "mistral" else name
    write_gguf(tmp_path / "m.gguf", name, extra={f"{architecture}.attention.sliding_window": 24})
    folder = converted(tmp_path / "m.gguf", tmp_path / "out")
    config = DecoderConfig.load(folder)
    assert (config.model_type, config.max_position) == (name, 24)
    assert "window of 24" in config.notes[0]
    assert getattr(AutoConfig.from_pretrained(folder), "sliding_window", None) == 24


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3_rope_is_told_from_its_divisors(factor: float, tmp_path: Path) -> None:
    parameters = {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    config = LlamaConfig(hidden_size=48, num_attention_heads=6, head_dim=16, rope_parameters=parameters)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 1.0 / 10000.0 ** (torch.arange(0, 16, 2) / 16)
    write_gguf(
        tmp_path / "m.gguf", tensors={"rope_freqs.weight": (plain / scaled).numpy().astype(np.float32)}
    )
    rope = DecoderConfig.load(converted(tmp_path / "m.gguf", tmp_path / "out")).rope
    assert (rope.kind, rope.factor, rope.original_max_position) == ("llama3", factor, 8192)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"extra": {"llama.rope.scaling.type": "yarn"}}, "'yarn' is not supported"),
        ({"tensors": {"rope_freqs.weight": np.full(8, 7, np.float32)}}, "rope_freqs"),
        ({"tensors": {"blk.0.ffn_gate_exps.weight": np.zeros((4, 4), np.float32)}}, "ffn_gate_exps.*mixture"),
        ({"pre": "falcon"}, "pre-tokenizer 'falcon' is not supported; only default"),
    ],
)
def test_what_is_unsupported_is_named(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", **options)
    with pytest.raises(ModelError, match=says):
        converted(tmp_path / "m.gguf", tmp_path / "out")


def test_an_unsupported_architecture(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ModelError, match="'mamba' is not supported; use one of llama, qwen2, qwen3"):
        converted(tmp_path / "m.gguf", tmp_path / "out")


def test_broken_files(tmp_path: Path) -> None:
    write_gguf(tmp_path / "whole.gguf")
    whole = (tmp_path / "whole.gguf").read_bytes()
    for i, content in enumerate([b"", b"GGUF", b"PK\x03\x04 zip", whole[:40], whole[:5000], whole[:-4000]]):
        (tmp_path / "m.gguf").write_bytes(content)
        with pytest.raises(ModelError, match="GGUF file") as caught:
            converted(tmp_path / "m.gguf", tmp_path / f"out{i}")
        assert "\n" not in str(caught.value)


def test_metadata_may_be_missing(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_head_count(4)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ModelError, match=r"llama\.embedding_length is missing"):
        converted(tmp_path / "m.gguf", tmp_path / "out")


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"llama.attention.head_count": 0}, r"llama\.attention\.head_count must be .* above 0, got 0"),
        ({"llama.attention.head_count": [6, 6]}, r"llama\.attention\.head_count must be .*, got \[6, 6\]"),
        ({"llama.embedding_length": "48"}, r"llama\.embedding_length must be .*, got '48'"),
        ({"llama.attention.head_count": 7}, "96 rows, which 7 heads can't share evenly"),
        ({"llama.attention.layer_norm_rms_epsilon": [1, 2]}, r"epsilon must be a number, got \[1, 2\]"),
        ({"llama.rope.freq_base": "x"}, r"llama\.rope\.freq_base must be a number, got 'x'"),
        ({"llama.rope.scaling.factor": [4.0]}, r"factor must be a number, got \[4\.0\]"),
        ({"general.architecture": ["llama"]}, r"architecture \['llama'\] is not supported"),
        ({"tokenizer.ggml.model": ["gpt2"]}, r"tokenizer \['gpt2'\] is not supported"),
        ({"tokenizer.ggml.pre": ["gpt2"]}, r"pre-tokenizer \['gpt2'\] is not supported"),
        ({"tokenizer.ggml.tokens": [1, 2]}, r"ggml\.tokens must be a list of texts"),
        ({"tokenizer.ggml.merges": [1, 2]}, r"ggml\.merges must be a list of texts"),
        ({"tokenizer.ggml.token_type": ["a"]}, r"ggml\.token_type must be a list of whole numbers"),
        ({"tokenizer.ggml.token_type": 5}, r"ggml\.token_type must be a list of whole numbers"),
        ({"tokenizer.ggml.scores": ["a"]}, r"ggml\.scores must be a list of numbers"),
        (
            {
                "tokenizer.ggml.model": "llama",
                "tokenizer.ggml.tokens": ["a" * 100_000],
                "tokenizer.ggml.token_type": [1],
                "tokenizer.ggml.scores": [1.0],
            },
            "too many long tokens",
        ),
        ({"llama.block_count": 9}, r"model\.layers\.3\.input_layernorm\.weight is missing"),
        ({"llama.feed_forward_length": 79}, "has shape"),
        ({"llama.attention.key_length": 15}, "head_dim 15 is odd"),
        ({"tokenizer.chat_template": "{% for"}, "chat template"),
    ],
)
def test_metadata_that_can_not_be_is_one_line(extra: dict[str, Any], says: str, tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", extra=extra)
    with pytest.raises(ModelError, match=says) as caught:
        converted(tmp_path / "m.gguf", tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "m.gguf") in str(caught.value)
    assert str(tmp_path / "out") not in str(caught.value)
