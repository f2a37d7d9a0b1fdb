"""Which decoder, operators and attention a configuration gets on this machine, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from chatkv.attention.base import AttentionBackend
from chatkv.attention.flashinfer.rules import Limits
from chatkv.engine.compute_cpu import build_on_cpu
from chatkv.engine.compute_gpu import build_on_gpu
from chatkv.engine.config import EngineError
from chatkv.engine.devices import cuda_problem, pick
from chatkv.model.checkpoint import DecoderWeights, load_weights
from chatkv.model.config import DecoderConfig
from chatkv.model.decoder import Decoder
from chatkv.model.dtype import dtype_name


@dataclass(frozen=True, slots=True)
class Compute:
    """``dtype`` and ``attention`` as shown to people; ``notes``: what was taken and why, one line each."""

    decoder: Decoder
    backend: AttentionBackend
    dtype: str
    attention: str
    notes: tuple[str, ...]


def build(
    folder: Path,
    dtype: str,
    attention: str,
    device: str = "cpu",
    limits: Limits | None = None,
    progress: Callable[[str, float | None], None] = lambda stage, fraction: None,
) -> Compute:
    """Load the model in ``folder``; see ``build_from``. Raises ModelError as well."""
    config = DecoderConfig.load(folder)

    def load(dtype: torch.dtype, device: str) -> DecoderWeights:
        return load_weights(folder, config, dtype, device)

    return build_from(config, load, dtype, attention, device, limits, progress)


def build_from(
    config: DecoderConfig,
    load: Callable[[torch.dtype, str], DecoderWeights],
    dtype: str,
    attention: str,
    device: str = "cpu",
    limits: Limits | None = None,
    progress: Callable[[str, float | None], None] = lambda stage, fraction: None,
) -> Compute:
    """What computes a model of ``config``. ``dtype``, ``attention`` and ``device`` as in ``EngineConfig``.

    ``load``: its weights in a dtype on a device. ``limits``: the largest steps there will be; its context may
    be longer than the model's. On a CPU ``auto`` goes by ``auto_forms``. Raises EngineError where something
    named can't be had.
    """
    notes: list[str] = []
    place = pick(device, notes)
    if place.capability is not None:
        limits = limits or Limits()
        limits = replace(limits, context=min(limits.context, config.max_position))
        decoder, backend = build_on_gpu(load, config, dtype, attention, place, limits, progress, notes)
        attention = f"{backend.name}/{place.device}"
        return Compute(decoder, backend, dtype_name(decoder.dtype), attention, _all(decoder, notes))
    if attention == "flashinfer":
        why = f"it needs an NVIDIA GPU, and {cuda_problem() or 'this is the CPU'}"
        raise EngineError(f"--attention flashinfer can't be had: {why}; use --attention auto")
    progress("loading weights", None)
    with torch.inference_mode():
        decoder, backend, form = build_on_cpu(lambda kind: load(kind, "cpu"), config, dtype, attention, notes)
    return Compute(decoder, backend, form, f"{backend.name}/cpu", _all(decoder, notes))


def _all(decoder: Decoder, notes: list[str]) -> tuple[str, ...]:
    """What is told of the checkpoint, then ``notes`` of the machine."""
    return (*decoder.config.notes, *decoder.weights.notes, *notes)
