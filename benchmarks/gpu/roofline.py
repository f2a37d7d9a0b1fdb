"""How near a decode step comes to the time that reading its bytes takes on this device.

A decode step of few rows reads all weights once and the KV of each request once, and does little with them:
the bandwidth of memory bounds it. The bound is measured, not looked up: a large copy on the same device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from benchmarks.gpu.device_time import device_seconds, wait
from chatkv.model.checkpoint import DecoderWeights
from chatkv.model.decoder import Decoder
from chatkv.model.linear import Linear, PackedLinear

COPY_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}
"""Well over what caches hold; on a CPU no more than a small machine can spare."""
ROUNDS = 8


def best_seconds(call: Callable[[], object], device: torch.device, rounds: int = ROUNDS) -> float:
    """Seconds that ``call`` takes when nothing is in its way."""
    best = float("inf")
    for _ in range(rounds):
        wait(device)
        begun = time.perf_counter()
        call()
        wait(device)
        best = min(best, time.perf_counter() - begun)
    return best


def copy_bandwidth(device: torch.device, size: int | None = None) -> float:
    """Bytes a second that a copy within ``device``'s memory reads and writes together."""
    size = COPY_BYTES[device.type] if size is None else size
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds = device_seconds if device.type == "cuda" else best_seconds
    return 2 * size / seconds(lambda: target.copy_(source), device)


def weight_bytes(weights: DecoderWeights) -> int:
    """Bytes of weights that a decode step of few rows reads: all but the table of embeddings (a row each)."""
    total = weights.final_norm.nbytes + _linear(weights.head)
    for layer in weights.layers:
        norms = (layer.attn_norm, layer.q_norm, layer.k_norm, layer.mlp_norm)
        total += sum(norm.nbytes for norm in norms if norm is not None)
        total += sum(map(_linear, (layer.qkv, layer.output, layer.gate_up, layer.down)))
    return total


def step_bytes(decoder: Decoder, kv_lens: Sequence[float]) -> float:
    """Bytes that a decode step reads where its requests have ``kv_lens`` tokens of KV each."""
    return weight_bytes(decoder.weights) + sum(kv_lens) * decoder.bytes_per_block(1)


def share(read: float, seconds: float, bandwidth: float) -> float:
    """What part of ``bandwidth`` was used by ``read`` bytes in ``seconds``; 1 is the roofline."""
    return read / seconds / bandwidth


def _linear(linear: Linear) -> int:
    bias = linear.bias.nbytes if linear.bias is not None else 0
    if isinstance(linear, PackedLinear):
        return bias + linear.packed.nbytes + linear.scales.nbytes
    return bias + linear.weight.nbytes
