"""What a GPU's memory must keep for everything beside weights and KV.

An estimate, and a generous one: what is asked for at the start and doesn't fit is one line that says so; what
runs out in the middle of a step ends the requests of that step.
"""

from __future__ import annotations

from chatkv.attention.flashinfer.wrappers import INT_BYTES
from chatkv.engine.config import EngineConfig
from chatkv.engine.graphs import MOST_PAGES, sizes
from chatkv.model.config import DecoderConfig

BASE = 512 << 20
"""Bytes: kernels that are loaded when they are first used, products' scratch memory, workspaces that grow,
and what is lost between allocations."""
GRAPH = 16 << 20
"""Bytes of one graph itself: hundreds of kernels with their arguments, and its own small buffers."""


def headroom(config: EngineConfig, model: DecoderConfig, itemsize: int, context: int, *, graphs: bool) -> int:
    """Bytes. ``itemsize``: of the model's dtype; ``context``: the most tokens of a request."""
    requests = min(config.max_running, config.max_batch_tokens)
    room = BASE + _activations(model, itemsize, config.max_batch_tokens) + _logits(model, itemsize, requests)
    # Torch's attention gathers a context's K and V of a layer, and copies them once more.
    layer = 2 * model.num_kv_heads * model.head_dim * itemsize
    room += 2 * context * layer
    if not graphs:
        return room
    pages = -(-context // config.block_size)
    for rows in sizes(config.max_running):
        # Each keeps its answer; what is computed on the way to it lies where the largest has it.
        room += GRAPH + INT_BYTES + 4 * min(rows * pages, MOST_PAGES) + _logits(model, itemsize, rows)
    largest = max(sizes(config.max_running))
    spare = model.num_layers * config.block_size * layer
    return room + _activations(model, itemsize, largest) + spare


def _activations(model: DecoderConfig, itemsize: int, rows: int) -> int:
    """What a layer has at once: hidden state and norm, q, k and v and their rotation, gate and up."""
    heads = (model.num_heads + 2 * model.num_kv_heads) * model.head_dim
    return rows * itemsize * (4 * model.hidden + 6 * heads + 4 * model.intermediate)


def _logits(model: DecoderConfig, itemsize: int, rows: int) -> int:
    """As the product gives them, in fp32, and once more for the rows that are read."""
    return rows * model.vocab * (itemsize + 8)
