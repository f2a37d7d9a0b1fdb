"""From a configuration to an engine that can step: model, KV pool, cache, scheduler."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

import torch

from chatkv.attention.flashinfer.rules import Limits
from chatkv.engine.compute import Compute, build
from chatkv.engine.config import EngineConfig, EngineError
from chatkv.engine.core import EngineCore
from chatkv.engine.cuda_graph import CudaGraphs
from chatkv.engine.devices import free_memory
from chatkv.engine.freed import return_freed_memory
from chatkv.engine.graph_start import start_graphs, wants_graphs, why_none
from chatkv.engine.headroom import headroom
from chatkv.engine.messages import Ready
from chatkv.engine.outbox import Outbox
from chatkv.engine.runner import Runner
from chatkv.engine.sizing import pool_blocks
from chatkv.kvcache.events import EventLog
from chatkv.kvcache.kinds import make_cache
from chatkv.model.catalog import resolve
from chatkv.model.store import Progress
from chatkv.model.tokenizer import Codec
from chatkv.scheduler.names import policy_label
from chatkv.scheduler.scheduler import Scheduler


def load(config: EngineConfig, outbox: Outbox, progress: Progress) -> tuple[EngineCore, Ready]:
    """Load everything ``config`` names; ``progress`` hears what is going on.

    Raises ChatkvError (ModelError, EngineError) with one line that says what to do.
    """
    start = time.perf_counter()
    config.validate()
    torch.set_num_threads(config.threads or cores())
    folder = resolve(config.model, progress)
    progress("loading tokenizer", None)
    codec = Codec.load(folder)
    compute = build(folder, config.dtype, config.attention, config.device, limits_of(config), progress)
    core, ready = assemble(config, compute, codec, outbox, progress)
    return_freed_memory()
    return core, replace(ready, load_s=time.perf_counter() - start)


def limits_of(config: EngineConfig) -> Limits:
    """The largest steps of an engine of ``config``."""
    return Limits(
        block_size=config.block_size,
        batch_tokens=config.max_batch_tokens,
        requests=config.max_running,
        context=config.max_context or sys.maxsize,
    )


def assemble(
    config: EngineConfig, compute: Compute, codec: Codec, outbox: Outbox, progress: Progress
) -> tuple[EngineCore, Ready]:
    """An engine around what computes; raises EngineError. ``Ready.load_s`` is 0."""
    decoder = compute.decoder
    model_context = decoder.config.max_position
    if config.max_context is not None and config.max_context > model_context:
        raise EngineError(
            f"--max-context {config.max_context} is more than {config.model} was made for: give at most "
            f"{model_context}",
            exit_code=2,
        )
    max_context = config.max_context or model_context
    progress("reserving the KV pool", None)
    per_block = decoder.bytes_per_block(config.block_size)
    device = decoder.device
    gpu, graphs = device.type == "cuda", wants_graphs(config, compute.backend, device)
    room = headroom(config, decoder.config, decoder.dtype.itemsize, max_context, graphs=graphs) if gpu else 0
    num_blocks = pool_blocks(config, per_block, free_memory(device), gpu=gpu, room=room)
    log = EventLog(outbox.events.append)
    cache = make_cache(
        config.cache,
        num_blocks,
        config.block_size,
        strict=config.strict,
        eviction=config.eviction,
        grain=config.evict_grain,
        log=log,
    )
    scheduler = Scheduler(
        cache,
        max_batch_tokens=config.max_batch_tokens,
        max_running=config.max_running,
        policy=config.policy,
        max_overtaken=config.max_overtaken,
        admission=config.admission,
    )
    notes = [*codec.notes, *compute.notes]
    try:
        runner = Runner(decoder, compute.backend, num_blocks, config.block_size, spare=graphs)
    except torch.OutOfMemoryError:  # a GPU that others use, too
        wanted = num_blocks * per_block >> 20
        raise EngineError(f"{device} did not give the {wanted} MiB of the KV pool: use --kv-memory") from None
    if graphs:
        notes.append(
            start_graphs(
                runner,
                CudaGraphs(device),
                requests=config.max_running,
                context=max_context,
                progress=progress,
                tell=outbox.notes.append,
            )
        )
    elif problem := why_none(config, compute.backend):
        notes.append(problem)
    core = EngineCore(cache, scheduler, runner, codec, max_context, outbox, verify=config.verify)
    ready = Ready(
        model=config.model,
        architecture=decoder.config.model_type,
        attention=compute.attention,
        dtype=compute.dtype,
        notes=tuple(notes),
        cache=config.cache,
        policy=policy_label(config.policy, config.max_overtaken),
        block_size=config.block_size,
        num_blocks=num_blocks,
        bytes_per_block=per_block,
        max_context=max_context,
        default_system=codec.default_system,
        load_s=0.0,
    )
    return core, ready


def cores() -> int:
    """The cores this process may use (not every system can tell; then all there are)."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
