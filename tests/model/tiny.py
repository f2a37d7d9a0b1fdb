"""Tiny random checkpoints, made by transformers itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from chatkv.attention.native_backend import NativeBackend
from chatkv.attention.torch_backend import TorchBackend
from chatkv.model.decoder import Decoder
from chatkv.model.native_operators import NativeOperators
from tests.attention.batches import paged_batch

SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "eos_token_id": 2,
    "bos_token_id": 1,
}

CONFIGS: dict[str, tuple[type[transformers.PretrainedConfig], dict[str, Any]]] = {
    "llama": (transformers.LlamaConfig, {}),
    "llama-tied-one-kv-head": (
        transformers.LlamaConfig,
        {"tie_word_embeddings": True, "num_key_value_heads": 1, "rms_norm_eps": 1e-5},
    ),
    "llama-biases": (transformers.LlamaConfig, {"attention_bias": True, "mlp_bias": True}),
    "llama-wide-heads": (transformers.LlamaConfig, {"head_dim": 32}),
    "llama-rope-linear": (
        transformers.LlamaConfig,
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}},
    ),
    "llama-rope-llama3": (
        transformers.LlamaConfig,
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
                "rope_theta": 500000.0,
            }
        },
    ),
    "mistral": (transformers.MistralConfig, {"sliding_window": None}),
    "mistral-window": (transformers.MistralConfig, {"sliding_window": 64}),
    "qwen2": (transformers.Qwen2Config, {"tie_word_embeddings": True}),
    "qwen3": (transformers.Qwen3Config, {}),
}


def reference(name: str, seed: int = 0, **sizes: int) -> transformers.PreTrainedModel:
    """A random fp32 model whose biases and norms differ from their neutral start values too."""
    kind, changes = CONFIGS[name]
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(kind(**(SIZES | changes | sizes))).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def save(name: str, folder: Path, **options: Any) -> transformers.PreTrainedModel:
    model = reference(name)
    model.save_pretrained(folder, **options)
    return model


class Requests:
    """Several sequences over one paged KV, stepped in batches like an engine would."""

    def __init__(self, decoder: Decoder, block_size: int, num_blocks: int, seed: int = 0) -> None:
        self.decoder, self.block_size = decoder, block_size
        native = isinstance(decoder.operators, NativeOperators)
        self.backend = NativeBackend(decoder.operators.kernels) if native else TorchBackend()
        self.kv = decoder.new_kv(num_blocks, block_size)
        self._free = np.random.default_rng(seed).permutation(num_blocks).tolist()
        self.tables: list[list[int]] = []
        self.done: list[int] = []

    def open(self, tokens: int) -> int:
        blocks = -(-tokens // self.block_size)
        self.tables.append(self._free[:blocks])
        self._free = self._free[blocks:]
        self.done.append(0)
        return len(self.tables) - 1

    def step(
        self, new: dict[int, list[int]], every_row: bool = False, rows: list[int] | None = None
    ) -> torch.Tensor:
        """Feed the tokens ``new`` of each request; logits of each one's last row, of all, or of ``rows``."""
        ids, positions, slots, last = [], [], [], []
        for request, tokens in new.items():
            for position in range(self.done[request], self.done[request] + len(tokens)):
                block = self.tables[request][position // self.block_size]
                slots.append(block * self.block_size + position % self.block_size)
                positions.append(position)
            ids += tokens
            last.append(len(ids) - 1)
            self.done[request] += len(tokens)
        requests = list(new)
        self.backend.plan(
            paged_batch(
                [self.tables[r] for r in requests],
                [len(t) for t in new.values()],
                [self.done[r] for r in requests],
                self.block_size,
            )
        )
        wanted = (
            torch.arange(len(ids))
            if every_row
            else torch.tensor(last if rows is None else rows, dtype=torch.long)
        )
        return self.decoder.forward(
            torch.tensor(ids), torch.tensor(positions), torch.tensor(slots), self.kv, self.backend, wanted
        )


def full_logits(model: transformers.PreTrainedModel, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]
