"""Models that are a shape and random numbers: what a machine computes in a second needs no checkpoint."""

from __future__ import annotations

import math

import torch

from chatkv.model.checkpoint import DecoderWeights, LayerWeights
from chatkv.model.config import DecoderConfig, RopeConfig
from chatkv.model.linear import Linear


def _llama(
    layers: int, heads: int, kv_heads: int, head_dim: int, width: int, vocab: int, context: int
) -> DecoderConfig:
    return DecoderConfig(
        model_type="llama",
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        hidden=heads * head_dim,
        intermediate=width,
        vocab=vocab,
        max_position=context,
        rope=RopeConfig(theta=10000.0),
        rms_norm_eps=1e-5,
        tie_embeddings=False,
        qkv_bias=False,
        o_bias=False,
        mlp_bias=False,
        qk_norm=False,
        eos_ids=frozenset(),
    )


SHAPES = {
    "tiny": _llama(2, 4, 2, 64, 512, 1024, 4096),
    "7b": _llama(32, 32, 32, 128, 11008, 32000, 4096),
    "8b": _llama(32, 32, 8, 128, 14336, 128256, 8192),
}
"""``7b``: Llama 2's; ``8b``: Llama 3's; ``tiny``: for trying out."""


def random_weights(config: DecoderConfig, dtype: torch.dtype, device: str, seed: int = 0) -> DecoderWeights:
    """Weights of ``config``'s shape that keep activations about 1 in size. For shapes without biases."""
    generator = None if device == "meta" else torch.Generator(device).manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        made = torch.empty(rows, columns, dtype=dtype, device=device)
        return made.normal_(0, 1 / math.sqrt(columns), generator=generator)

    def ones() -> torch.Tensor:
        return torch.ones(config.hidden, dtype=dtype, device=device)

    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    layers = tuple(
        LayerWeights(
            attn_norm=ones(),
            qkv=Linear(matrix(q + 2 * kv, config.hidden)),
            q_norm=None,
            k_norm=None,
            output=Linear(matrix(config.hidden, q)),
            mlp_norm=ones(),
            gate_up=Linear(matrix(2 * config.intermediate, config.hidden)),
            down=Linear(matrix(config.hidden, config.intermediate)),
        )
        for _ in range(config.num_layers)
    )
    embedding = matrix(config.vocab, config.hidden)
    return DecoderWeights(embedding, layers, ones(), Linear(matrix(config.vocab, config.hidden)))
