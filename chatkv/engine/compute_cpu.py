"""What a CPU computes with: which form of weights, kernels or torch; the rule of ``--dtype auto``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import torch

from chatkv.attention.base import AttentionBackend
from chatkv.attention.native_backend import NativeBackend
from chatkv.attention.native_plan import HEAD_MULTIPLE
from chatkv.attention.torch_backend import TorchBackend
from chatkv.engine.config import EngineError
from chatkv.model.checkpoint import DecoderWeights
from chatkv.model.config import DecoderConfig
from chatkv.model.decoder import Decoder
from chatkv.model.dtype import PACKED, auto_dtype, parse_dtype
from chatkv.model.fused import MAX_ROWS, FusedStep, unfit
from chatkv.model.native_operators import NativeOperators
from chatkv.model.quantise import pack, unusable, was_4bit, widened
from chatkv.model.wide import WideStep, fits
from chatkv.native.library import Kernels, kernels, parallel, why_not

Load = Callable[[torch.dtype], DecoderWeights]


ALL_ROWS = 2048
"""Of a forward: a compiled step of more would need much of its threads' stacks."""
ROWS_WITHOUT_BF16 = {
    "x86-64-v4-vnni": ALL_ROWS,
    "x86-64-v4": 128,
    "x86-64-v3-vnni": ALL_ROWS,
    "x86-64-v3": 64,
    "x86-64": ALL_ROWS,
}
"""On CPUs without bf16 instructions, by the kernels' name: up to how many rows a compiled step is faster than
weights widened to fp32 (docs/benchmarks.md)."""


class Auto(NamedTuple):
    """What ``--dtype auto`` takes: for a checkpoint that was 4-bit, for any other, and why."""

    four_bit: str
    other: str
    why: str


def no_step() -> str | None:
    """Why there is no compiled step that is worth its while here; None where there is."""
    if problem := why_not():
        return problem
    if not parallel() and (os.cpu_count() or 1) > 1:
        return "those here were compiled without OpenMP and use one core only"
    return None


def auto_forms(no_kernels: str | None) -> Auto:
    """The rule, from what this CPU has. ``no_kernels``: why there is no compiled step, None where there is.

    Without bf16 instructions torch's bf16 products are several times slower than its fp32 ones, but a
    compiled step has no such products: 4-bit weights are taken where there is one, and products of more rows
    than a step takes are computed in fp32. With them torch's own 4-bit products serve, too.
    """
    if auto_dtype() == torch.bfloat16:
        packs = no_kernels is None or unusable("int4") is None
        return Auto("int4" if packs else "bf16", "bf16", "this CPU has bf16 instructions")
    if no_kernels is not None:
        return Auto("fp32", "fp32", f"no bf16 instructions here, and no native kernels: {no_kernels}")
    rows = _step_rows(kernels(torch.bfloat16))
    long = "" if rows == ALL_ROWS else f" up to {rows} tokens, longer ones in fp32"
    return Auto("int4", "fp32", f"no bf16 instructions here; prompts in int4{long}")


def _step_rows(native: Kernels | None) -> int:
    return MAX_ROWS if native is None else ROWS_WITHOUT_BF16.get(native.variant, MAX_ROWS)


def build_on_cpu(
    load: Load, config: DecoderConfig, dtype: str, attention: str, notes: list[str]
) -> tuple[Decoder, AttentionBackend, str]:
    """The decoder of ``config``, its attention, and the form of its weights as shown to people.

    Appends to ``notes`` what was taken and why. Raises what ``load`` raises, and EngineError where something
    named can't be had.
    """
    if dtype == "fp16":
        raise EngineError("--dtype fp16 is for GPUs, and this is the CPU: use --dtype bf16 or fp32")
    problem = _no_kernels(config, attention)
    if problem is not None and attention != "torch":
        if attention == "native":
            raise EngineError(f"--attention native can't be had: {problem}; use --attention auto")
        notes.append(f"attention by torch, no native kernels: {problem}")
    form, weights = _weights(load, dtype, problem or no_step() or unfit(config))
    compute = parse_dtype(form)
    native = None if problem else kernels(compute)
    operators = NativeOperators(config, native) if native else None
    emulated = compute == torch.bfloat16 and auto_dtype() != torch.bfloat16
    if emulated:
        weights = widened(weights)
    fused = wide = None
    if form in PACKED and operators is not None and unfit(config) is None:
        fused = FusedStep(config, weights, operators, form)
        if emulated:
            fused.max_rows = _step_rows(native)
        elif fits(config, operators.kernels):
            wide = WideStep(config, weights, fused, operators.kernels)
    elif form in PACKED:
        missing = unusable(form) or (unusable("int8") if form == "int4" else None)
        if missing and dtype != "auto":
            raise EngineError(f"--dtype {dtype} can't be had: {missing}; use --dtype auto")
        if missing:
            notes.append(f"weights stay bf16: {missing}")
            form = "bf16"
        else:
            weights = pack(weights, form)
    backend = NativeBackend(native) if native else TorchBackend()
    if emulated and (fused is None or fused.max_rows < ALL_ROWS):
        form += "+fp32"
    return Decoder(config, weights, operators, fused, wide), backend, form


def _weights(load: Load, dtype: str, no_kernels: str | None) -> tuple[str, DecoderWeights]:
    """The form for ``dtype``, and the weights it is made from."""
    if dtype != "auto":
        return dtype, load(parse_dtype(dtype))
    auto = auto_forms(no_kernels)
    # Whether a checkpoint was 4-bit is seen in bf16, which is most often how it is kept.
    weights = load(parse_dtype(auto.four_bit))
    if auto.four_bit == auto.other or was_4bit(weights):
        return auto.four_bit, weights
    if parse_dtype(auto.other) != weights.embedding.dtype:
        weights = load(parse_dtype(auto.other))
    return auto.other, weights


def _no_kernels(config: DecoderConfig, attention: str) -> str | None:
    """Why the native kernels don't serve, in words; None where they do."""
    if attention == "torch":
        return "not wanted (--attention torch)"
    if config.head_dim % HEAD_MULTIPLE:
        return why_not() or f"no help: head_dim {config.head_dim} is no multiple of {HEAD_MULTIPLE}"
    return why_not()
