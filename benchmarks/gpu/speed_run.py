"""From a model, or a shape with random weights, to measured figures."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, cast

import torch

from benchmarks.gpu.device_time import wait
from benchmarks.gpu.no_tokenizer import NoTokenizer
from benchmarks.gpu.shapes import SHAPES, random_weights
from benchmarks.gpu.speed import Bench, Progress, Speed
from chatkv.engine.compute import build, build_from
from chatkv.engine.config import EngineConfig, EngineError
from chatkv.engine.devices import free_memory
from chatkv.engine.graph_start import wants_graphs
from chatkv.engine.headroom import headroom
from chatkv.engine.loading import assemble, cores, limits_of
from chatkv.engine.outbox import Outbox
from chatkv.model.catalog import resolve
from chatkv.model.tokenizer import Codec


def measure(config: EngineConfig, shape: str | None, speed: Speed, progress: Progress) -> dict[str, Any]:
    """Figures of one run, ready for JSON. ``shape``: one of ``SHAPES``, instead of ``config.model``.

    Raises ChatkvError.
    """
    torch.set_num_threads(config.threads or cores())
    size = config.block_size
    config = replace(
        config,
        max_running=max(speed.batches),
        max_context=speed.tokens,
        num_blocks=speed.blocks(size),
    ).validate()

    def tell(stage: str, fraction: float | None) -> None:
        progress(stage, int(100 * (fraction or 0)), 0 if fraction is None else 100)

    limits = limits_of(config)
    if shape is None:
        folder = resolve(config.model, tell)
        compute = build(folder, config.dtype, config.attention, config.device, limits, tell)
    else:
        model = SHAPES[shape]

        def load(dtype: torch.dtype, device: str) -> Any:
            return random_weights(model, dtype, device)

        compute = build_from(model, load, config.dtype, config.attention, config.device, limits, tell)
    decoder = compute.decoder
    wanted = decoder.bytes_per_block(size) * (config.num_blocks or 0)
    free = free_memory(decoder.device)
    gpu = decoder.device.type == "cuda"
    if gpu:
        graphs = wants_graphs(config, compute.backend, decoder.device)
        free -= headroom(config, decoder.config, decoder.dtype.itemsize, speed.tokens, graphs=graphs)
    if wanted > free:
        raise EngineError(
            f"the KV of {max(speed.batches)} requests takes {wanted >> 20} MiB, "
            f"{max(free, 0) >> 20} MiB are free: "
            "give smaller ones with --batch, --context or --prompt"
        )
    outbox = Outbox()
    core, ready = assemble(config, compute, cast(Codec, NoTokenizer()), outbox, tell)
    wait(decoder.device)
    result = Bench(core, outbox, speed, progress).run()
    return {
        "model": config.model if shape is None else f"{shape} (random weights)",
        "device": torch.cuda.get_device_name(decoder.device) if gpu else "cpu",
        "attention": ready.attention,
        "dtype": ready.dtype,
        "block_size": size,
        "notes": list(ready.notes),
        "torch": torch.__version__,
        "speed": asdict(speed),
        "copy_bandwidth": result.copy_bandwidth,
        "weight_bytes": result.weight_bytes,
        "decode": [
            row._asdict() | {"overhead_s": row.overhead_s, "times_alone": row.times_alone}
            for row in result.decode
        ],
        "prefill_tokens_per_s": result.prefill_tokens_per_s,
        "ttft_cold_s": result.ttft_cold_s,
        "ttft_cached_s": result.ttft_cached_s,
    }
