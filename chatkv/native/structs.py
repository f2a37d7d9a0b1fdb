"""What the kernels are told, as ctypes structures: the twins of those in the C sources."""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int32, c_int64, c_void_p

_LAYOUT = ("heads", "kv_heads", "head_dim", "block_size")


class DecodePlan(ctypes.Structure):
    """``Decode`` of kernels.c: addresses of int32 arrays (``partial``: fp32), then sizes."""

    _fields_ = (
        *((name, c_void_p) for name in ("kv_indptr", "kv_indices", "kv_lens", "rows")),
        *((name, c_void_p) for name in ("part_request", "part_start", "part_stop", "partial")),
        *((name, c_int32) for name in ("requests", "parts", *_LAYOUT)),
    )


class PrefillPlan(ctypes.Structure):
    """``Prefill`` of prefill.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("blocks", "packed")),
        *((name, c_int32) for name in ("rows", "length", *_LAYOUT)),
    )


class PackedWeights(ctypes.Structure):
    """``Packed`` of packed.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("codes", "steps", "bias")),
        *((name, c_int32) for name in ("rows", "columns", "bits", "reserved")),
    )


class StepLayer(ctypes.Structure):
    """``StepLayer`` of step.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("attn_norm", "mlp_norm", "q_norm", "k_norm")),
        *((name, PackedWeights) for name in ("qkv", "output", "gate_up", "down")),
    )


class Panel(ctypes.Structure):
    """``Panel`` of panel.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("words", "bias")),
        *((name, c_int32) for name in ("blocks", "depth")),
    )


class WideLayer(ctypes.Structure):
    """``WideLayer`` of wide.h."""

    _fields_ = tuple((name, Panel) for name in ("qkv", "output", "gate_up", "down"))


class StepModel(ctypes.Structure):
    """``Model`` of step.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("layers", "embedding", "final_norm")),
        ("head", PackedWeights),
        *((name, c_int32) for name in ("num_layers", "hidden", "intermediate")),
        ("eps", c_float),
        *((name, c_int32) for name in _LAYOUT),
    )


class Step(ctypes.Structure):
    """``Step`` of step.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("tokens", "positions", "slots", "wanted", "angles", "kv")),
        ("kv_layer", c_int64),
        *((name, c_void_p) for name in ("blocks", "part_row", "part_first", "part_start", "part_stop")),
        *((name, c_void_p) for name in ("row_part", "prefills", "prefill_row", "scratch", "logits")),
        *((name, c_int32) for name in ("rows", "logits_rows", "parts", "prefill_count")),
    )
