"""Weights of a Hugging Face folder: safetensors (one file or shards) → the decoder's fused tensors."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from chatkv.model.config import DecoderConfig
from chatkv.model.errors import ModelError
from chatkv.model.folder import weight_files
from chatkv.model.linear import Linear
from chatkv.model.mapped import give_back


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One decoder layer. ``qkv`` stacks q, k, v; ``gate_up`` stacks gate and up."""

    attn_norm: torch.Tensor
    qkv: Linear
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """All weights. ``head``'s are ``embedding`` itself where they are tied.

    ``notes``: what a person should know about them, one line each.
    """

    embedding: torch.Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: torch.Tensor
    head: Linear
    notes: tuple[str, ...] = ()


def load_weights(folder: Path, config: DecoderConfig, dtype: torch.dtype, device: str) -> DecoderWeights:
    """Read and fuse the weights in ``dtype`` on ``device``.

    Tensors that already have the dtype and need no fusing stay mapped from the file on a CPU.
    Raises ModelError for missing, surplus, misshapen or unreadable tensors.
    """
    with ExitStack() as stack:
        return _Reader(stack, folder, config, dtype, device).weights()


class _Reader:
    """Looks tensors up by their Hugging Face name, checks shapes, and notes which were used."""

    def __init__(
        self, stack: ExitStack, folder: Path, config: DecoderConfig, dtype: torch.dtype, device: str
    ) -> None:
        self._folder, self._config, self._dtype, self._device = folder, config, dtype, device
        self._where: dict[str, Any] = {}
        self._mapped = True
        """Whether all tensors so far are the file's own pages."""
        for file in weight_files(folder):
            try:
                handle = stack.enter_context(safe_open(file, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ModelError(
                    f"{file} is not a readable safetensors file ({error}); download it again"
                ) from None
            self._where |= dict.fromkeys(handle.keys(), handle)
        self._prefix = "model." if any(name.startswith("model.") for name in self._where) else ""

    def weights(self) -> DecoderWeights:
        config = self._config
        embedding, head, notes = self._ends()
        layers = tuple(self._layer(f"layers.{i}.") for i in range(config.num_layers))
        final_norm = self._take("norm.weight", config.hidden)
        # RoPE's frequencies follow from the config: transformers leaves those in old files, too.
        surplus = [n for n in self._where if not n.endswith("rotary_emb.inv_freq")]
        if surplus:
            raise ModelError(
                f"{self._folder}: tensor {min(surplus)} is not part of a {config.model_type} model; "
                "config.json and the weights don't belong together"
            )
        return DecoderWeights(embedding, layers, final_norm, Linear(head), notes)

    def _ends(self) -> tuple[torch.Tensor, torch.Tensor, tuple[str, ...]]:
        """The embedding, the head, and notes. What is tied is what the file has of the two.

        Where it has both and they differ, each is used: transformers does so, whatever the config says.
        """
        shape = (self._config.vocab, self._config.hidden)
        first, last = self._prefix + "embed_tokens.weight", "lm_head.weight"
        tied = self._config.tie_embeddings
        notes: tuple[str, ...] = ()
        if tied and first in self._where and last in self._where:
            one, other = self._read(first), self._read(last)
            tied = one.dtype == other.dtype and torch.equal(one, other)
            if tied:
                del self._where[last]
            else:
                says = "config.json says that the head is the embedding, and the file has another head"
                notes = (f"{says} (lm_head.weight): that one is used, as in transformers",)
        if tied:
            only = self._tensor(last if first not in self._where and last in self._where else first, shape)
            return only, only, notes
        return self._tensor(first, shape), self._tensor(last, shape), notes

    def _layer(self, prefix: str) -> LayerWeights:
        c = self._config
        q_size, kv_size = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
        attn, mlp = prefix + "self_attn.", prefix + "mlp."
        qkv = {attn + "q_proj": q_size, attn + "k_proj": kv_size, attn + "v_proj": kv_size}
        return LayerWeights(
            attn_norm=self._take(prefix + "input_layernorm.weight", c.hidden),
            qkv=self._linear(qkv, c.hidden, c.qkv_bias),
            q_norm=self._take(attn + "q_norm.weight", c.head_dim) if c.qk_norm else None,
            k_norm=self._take(attn + "k_norm.weight", c.head_dim) if c.qk_norm else None,
            output=self._linear({attn + "o_proj": c.hidden}, q_size, c.o_bias),
            mlp_norm=self._take(prefix + "post_attention_layernorm.weight", c.hidden),
            gate_up=self._linear(
                dict.fromkeys((mlp + "gate_proj", mlp + "up_proj"), c.intermediate), c.hidden, c.mlp_bias
            ),
            down=self._linear({mlp + "down_proj": c.hidden}, c.intermediate, c.mlp_bias),
        )

    def _linear(self, parts: dict[str, int], columns: int, bias: bool) -> Linear:
        weights = [self._take(name + ".weight", rows, columns) for name, rows in parts.items()]
        biases = [self._take(name + ".bias", rows) for name, rows in parts.items()] if bias else []
        joined = _join(weights)
        if len(weights) > 1 and self._mapped:
            for weight in weights:
                give_back(weight)
        mapped = len(weights) == 1 and self._mapped
        return Linear(joined, _join(biases) if bias else None, mapped=mapped)

    def _take(self, name: str, *shape: int) -> torch.Tensor:
        return self._tensor(self._prefix + name, shape)

    def _read(self, name: str) -> torch.Tensor:
        handle = self._where.get(name)
        if handle is None:
            raise ModelError(f"{self._folder}: tensor {name} is missing; download the model again")
        try:
            tensor: torch.Tensor = handle.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise ModelError(
                f"{self._folder}: tensor {name} can't be read ({error}); download the model again"
            ) from None
        return tensor

    def _tensor(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        tensor = self._read(name)
        del self._where[name]
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"{self._folder}: tensor {name} has shape {list(tensor.shape)}, "
                f"config.json says {list(shape)}"
            )
        if not tensor.is_floating_point() or tensor.element_size() < 2:
            raise ModelError(
                f"{self._folder}: tensor {name} is {tensor.dtype}; "
                "only bf16, fp16 and fp32 weights are supported"
            )
        if tensor.dtype != self._dtype or self._device != "cpu":
            self._mapped = False
        return tensor.to(device=self._device, dtype=self._dtype)


def _join(parts: list[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
