"""Which decoder, operators and attention a configuration gets on this machine, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from chatkv.attention.base import AttentionBackend
from chatkv.attention.flashinfer_rules import Limits
from chatkv.attention.native_backend import NativeBackend
from chatkv.attention.native_plan import HEAD_MULTIPLE
from chatkv.attention.torch_backend import TorchBackend
from chatkv.engine.compute_gpu import build_on_gpu
from chatkv.engine.config import EngineError
from chatkv.engine.devices import cuda_problem, pick
from chatkv.model.checkpoint import DecoderWeights, load_weights
from chatkv.model.config import DecoderConfig
from chatkv.model.decoder import Decoder
from chatkv.model.dtype import PACKED, dtype_name, parse_dtype
from chatkv.model.fused import FusedStep, unfit
from chatkv.model.native_operators import NativeOperators
from chatkv.model.quantise import pack, unusable, was_4bit
from chatkv.native.library import Kernels, kernels, why_not


@dataclass(frozen=True, slots=True)
class Compute:
    """``dtype`` and ``attention`` as shown to people; ``notes``: what was taken and why."""

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
    be longer than the model's. On a CPU ``auto`` packs weights to 4 bits where the checkpoint was 4-bit
    (nothing is lost then) and this machine computes in bf16. Raises EngineError where something named can't
    be had.
    """
    notes: list[str] = []
    place = pick(device, notes)
    if place.capability is not None:
        limits = limits or Limits()
        limits = replace(limits, context=min(limits.context, config.max_position))
        decoder, backend = build_on_gpu(load, config, dtype, attention, place, limits, progress, notes)
        attention = f"{backend.name}/{place.device}"
        return Compute(decoder, backend, dtype_name(decoder.dtype), attention, tuple(notes))
    if attention == "flashinfer":
        why = f"it needs an NVIDIA GPU, and {cuda_problem() or 'this is the CPU'}"
        raise EngineError(f"--attention flashinfer can't be had: {why}; use --attention auto")
    if dtype == "fp16":
        raise EngineError("--dtype fp16 is for GPUs, and this is the CPU: use --dtype bf16 or fp32")
    compute_dtype = parse_dtype(dtype)
    progress("loading weights", None)
    with torch.inference_mode():
        weights = load(compute_dtype, "cpu")
        form = dtype
        if dtype == "auto":
            form = (
                "int4" if compute_dtype == torch.bfloat16 and was_4bit(weights) else dtype_name(compute_dtype)
            )
        native = _native(config, compute_dtype, attention, notes)
        operators = NativeOperators(config, native) if native else None
        fused = None
        if form in PACKED and operators is not None and unfit(config) is None:
            fused = FusedStep(config, weights, operators, form)
        elif form in PACKED:
            problem = unusable(form) or (unusable("int8") if form == "int4" else None)
            if problem and dtype != "auto":
                raise EngineError(f"--dtype {dtype} can't be had: {problem}; use --dtype auto")
            if problem:
                notes.append(f"weights stay bf16: {problem}")
                form = "bf16"
            else:
                weights = pack(weights, form)
    backend = NativeBackend(native) if native else TorchBackend()
    decoder = Decoder(config, weights, operators, fused)
    return Compute(decoder, backend, form, f"{backend.name}/cpu", tuple(notes))


def _native(config: DecoderConfig, dtype: torch.dtype, attention: str, notes: list[str]) -> Kernels | None:
    if attention == "torch":
        return None
    problem = why_not()
    if problem is None and config.head_dim % HEAD_MULTIPLE:
        problem = f"head_dim {config.head_dim} is no multiple of {HEAD_MULTIPLE}"
    if problem is None:
        return kernels(dtype)
    if attention == "native":
        raise EngineError(f"--attention native can't be had: {problem}; use --attention auto")
    notes.append(f"attention by torch: the native kernels are {problem}")
    return None
