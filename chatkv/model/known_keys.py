"""What is known of the keys of a checkpoint's description: computed with, of no effect, or refused.

A key can change the arithmetic in ways that nothing here computes. So every known one stands in one of
three tables, and of the others a person is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chatkv.model.errors import ModelError
from chatkv.text import one_line

_NAMED = 6
"""Unknown keys that a note names; of more it gives the number."""

_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_OFF = (None, False)
_ONE = (None, 1)
_NONE = (None, 0)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one kind of file. ``prefixes``: what begins so is of no effect, too.

    ``neutral``: key → the values with which it changes nothing; with any other one the file is refused.
    """

    used: frozenset[str]
    idle: frozenset[str]
    neutral: Mapping[str, tuple[Any, ...]]
    prefixes: tuple[str, ...] = ()

    def check(self, data: Mapping[str, Any], where: str) -> tuple[str, ...]:
        """The unknown keys in ``data`` that say something. Raises ModelError naming a key in ``where``."""
        unknown = []
        for key, value in data.items():
            if key in self.neutral:
                allowed = self.neutral[key]
                if not any(value == each for each in allowed):
                    shown = " or ".join(repr(v) for v in allowed if v is not None)
                    raise ModelError(
                        f"{where}: {key} {one_line(repr(value), 60)} is not supported"
                        f"{f', only {shown} is' if shown else ''}; use another model"
                    )
            elif value is not None and key not in self.used | self.idle and not key.startswith(self.prefixes):
                unknown.append(key)
        return tuple(unknown)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def note_of(unknown: Iterable[str], file: str) -> tuple[str, ...]:
    """One line for a person about keys of ``file`` that nothing here knows; none where there are none."""
    names = sorted({one_line(name, 60) for name in unknown})
    if not names:
        return ()
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (f"{file}: not known here and not used: {', '.join(names[:_NAMED])}{more}",)


_ONLY = {
    "attention_bias": ("llama", "qwen3"),
    "mlp_bias": ("llama",),
    "sliding_window": ("mistral", "qwen2", "qwen3"),
    "layer_types": ("mistral", "qwen2", "qwen3"),
    "use_sliding_window": ("qwen2", "qwen3"),
    "max_window_layers": ("qwen2", "qwen3"),
}
"""Keys that not all families read, as in transformers: elsewhere, where they say something, they are told."""

_CONFIG = Keys(
    used=_words(
        """
        model_type vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads
        num_key_value_heads head_dim max_position_embeddings rms_norm_eps hidden_act eos_token_id
        rope_theta rope_scaling rope_parameters original_max_position_embeddings tie_word_embeddings
        auto_map chatkv_notes
        """
    ),
    # Training, defaults of sampling, bookkeeping of tools.
    idle=_words(
        """
        architectures attention_dropout hidden_dropout hidden_dropout_prob embd_pdrop resid_pdrop
        embedding_dropout attention_probs_dropout_prob classifier_dropout initializer_range
        initializer_factor bos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id
        torch_dtype dtype transformers_version use_cache pretraining_tp name_or_path tokenizer_class prefix
        model_max_length max_sequence_length seq_length gradient_checkpointing unsloth_version
        unsloth_fixed unsloth_processed torchscript use_bfloat16 use_flash_attn use_flash_attention
        attn_implementation output_attentions output_hidden_states output_scores output_router_logits
        router_aux_loss_coef return_dict return_dict_in_generate use_return_dict
        chunk_size_feed_forward cross_attention_hidden_size tie_encoder_decoder is_decoder id2label
        label2id num_labels problem_type finetuning_task task_specific_params tf_legacy_loss
        is_llama_config transformers.js_config do_sample temperature top_k top_p typical_p min_p
        repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
        bad_words_ids num_return_sequences max_length min_length max_new_tokens num_beams
        num_beam_groups diversity_penalty early_stopping remove_invalid_values
        exponential_decay_length_penalty suppress_tokens begin_suppress_tokens forced_bos_token_id
        forced_eos_token_id
        """
    ),
    prefixes=("_",),
    neutral={
        "hidden_activation": (None, "silu", "swish"),
        "is_causal": (None, True),
        "partial_rotary_factor": _ONE,
        "rotary_pct": _ONE,
        "rotary_percent": _ONE,
        "rope_pct": _ONE,
        "rope_ratio": _ONE,
        "rotary_dim": (None,),
        "rope_local_base_freq": (None,),
        "rope_interleaved": _OFF,
        "rope_traditional": _OFF,
        "use_mrope": _OFF,
        "no_rope_layers": (None, []),
        "no_rope_layer_interval": _NONE,
        "position_embedding_type": (None, "rope", "rotary"),
        "alibi": _OFF,
        "use_alibi": _OFF,
        "attention_multiplier": (None,),
        "attention_scale": (None,),
        "attn_scale": (None,),
        "softmax_scale": (None,),
        "query_pre_attn_scalar": (None,),
        "attn_logit_softcapping": _NONE,
        "final_logit_softcapping": _NONE,
        "logit_softcapping": _NONE,
        "logit_scale": _ONE,
        "logits_scaling": _ONE,
        "embedding_multiplier": _ONE,
        "residual_multiplier": _ONE,
        "scale_emb": _ONE,
        "scale_depth": (None,),
        "dim_model_base": (None,),
        "clip_qkv": (None,),
        "qk_layernorm": _OFF,
        "qk_norm": _OFF,
        "use_qk_norm": _OFF,
        "attention_sinks": _OFF,
        "norm_type": (None, "rmsnorm", "rms_norm", "rms"),
        "parallel_attn": _OFF,
        "use_parallel_residual": _OFF,
        "num_experts": _NONE,
        "num_local_experts": _NONE,
        "n_routed_experts": _NONE,
        "n_shared_experts": _NONE,
        "num_experts_per_tok": _NONE,
        "mlp_only_layers": (None, []),
        "num_nextn_predict_layers": _NONE,
        "pruned_heads": (None, {}),
        "add_cross_attention": _OFF,
        "is_encoder_decoder": _OFF,
        "text_config": (None,),
        "vision_config": (None,),
        "audio_config": (None,),
        "quantization_config": (None, {}),
        "quantization": (None, {}),
        "compression_config": (None, {}),
    },
)

_ROPE = Keys(
    used=_words(
        """
        rope_type type rope_theta factor low_freq_factor high_freq_factor
        original_max_position_embeddings
        """
    ),
    idle=frozenset({"finetuned"}),
    neutral={"partial_rotary_factor": _ONE, "attention_factor": _ONE},
)


def check_config(data: Mapping[str, Any], rope: Mapping[str, Any], model_type: str, where: str) -> list[str]:
    """The keys of a ``config.json`` (``rope``: its RoPE parameters) that nothing knows or that do nothing.

    Raises ModelError for one that asks for what is not computed.
    """
    own = {key: value for key, value in data.items() if model_type in _ONLY.get(key, _FAMILIES)}
    known = {key: value for key, value in own.items() if key not in _ONLY}
    idle = [key for key in data if key not in own and data[key] not in (None, False)]
    inside = [f"rope_parameters.{key}" for key in _ROPE.check(rope, where)]
    return [*_CONFIG.check(known, where), *idle, *inside]


GGUF = Keys(
    used=_words(
        """
        block_count context_length embedding_length feed_forward_length attention.head_count
        attention.head_count_kv attention.key_length attention.value_length
        attention.layer_norm_rms_epsilon attention.sliding_window rope.dimension_count rope.freq_base
        rope.scaling.type rope.scaling.factor rope.scale_linear
        """
    ),
    # YaRN's numbers count with YaRN only, which is refused by its type.
    idle=_words(
        """
        vocab_size attention.layer_norm_epsilon rope.scaling.original_context_length
        rope.scaling.finetuned rope.scaling.yarn_ext_factor rope.scaling.yarn_attn_factor
        rope.scaling.yarn_beta_fast rope.scaling.yarn_beta_slow rope.scaling.yarn_log_multiplier
        pooling_type expert_weights_scale
        """
    ),
    neutral={
        "tensor_data_layout": ("Meta AI original pth",),
        "use_parallel_residual": (False,),
        "attention.causal": (True,),
        "attention.max_alibi_bias": (0,),
        "attention.clamp_kqv": (0,),
        "attention.scale": (0,),
        "attention.output_scale": (0, 1),
        "attention.temperature_scale": (0,),
        "attention.sliding_window_pattern": (0, 1, False),
        "rope.scaling.attn_factor": (1,),
        "rope.scaling.alpha": (0,),
        "rope.dimension_sections": ([],),
        "logit_scale": (0, 1),
        "residual_scale": (0, 1),
        "embedding_scale": (0, 1),
        "attn_logit_softcapping": (0,),
        "final_logit_softcapping": (0,),
        "expert_count": (0,),
        "expert_used_count": (0,),
        "expert_shared_count": (0,),
        "nextn_predict_layers": (0,),
        "swin_norm": (False,),
    },
)
"""Behind ``<architecture>.``"""

GGUF_FILE = Keys(
    used=_words(
        """
        general.architecture general.alignment tokenizer.ggml.model tokenizer.ggml.pre
        tokenizer.ggml.tokens tokenizer.ggml.token_type tokenizer.ggml.scores tokenizer.ggml.merges
        tokenizer.ggml.bos_token_id tokenizer.ggml.eos_token_id tokenizer.ggml.eot_token_id
        tokenizer.ggml.eom_token_id tokenizer.ggml.unknown_token_id tokenizer.ggml.padding_token_id
        tokenizer.ggml.add_bos_token tokenizer.ggml.add_space_prefix tokenizer.chat_template
        tokenizer.chat_templates
        """
    ),
    # Of a prompt that is to be gone on with the end is open, so no EOS or separator is added.
    idle=_words(
        """
        tokenizer.ggml.add_eos_token tokenizer.ggml.add_sep_token tokenizer.ggml.seperator_token_id
        tokenizer.ggml.mask_token_id tokenizer.ggml.cls_token_id tokenizer.ggml.token_type_count
        tokenizer.ggml.remove_extra_whitespaces tokenizer.ggml.prefix_token_id
        tokenizer.ggml.suffix_token_id tokenizer.ggml.middle_token_id tokenizer.huggingface.json
        """
    ),
    neutral={"general.type": ("model",), "split.count": (0, 1)},
    prefixes=(
        "GGUF.",
        "general.",
        "split.",
        "quantize.",
        "imatrix.",
        "tokenizer.ggml.fim_",
        "tokenizer.chat_template.",
    ),
)
