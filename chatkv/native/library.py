"""The compiled kernels as Python functions over tensors' addresses (ctypes: no build against torch).

torch must be imported first: its OpenMP runtime is then the one the kernels use, so that both share
one pool of threads.
"""

from __future__ import annotations

import ctypes
import platform
from ctypes import c_float, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import torch

from chatkv.errors import UsageError
from chatkv.native.choice import OFF, VARIABLE, chosen

ABI = 7
"""Must be what ``chatkv_abi`` in kernels.c returns: a library from another version is not used."""
HERE = Path(__file__).resolve().parent
NOT_BUILT = "not built: install chatkv where there is a C compiler (gcc or clang)"

_SIGNATURES: dict[str, list[Any]] = {
    "add_norm": [c_void_p] * 4 + [c_int64] * 2 + [c_float],
    "gated": [c_void_p] * 2 + [c_int64] * 2,
    "place": [c_void_p] * 8 + [c_int64] * 5 + [c_float],
    "paged_decode": [c_void_p] * 4,
    "codes4": [c_void_p] * 3 + [c_int64] * 2,
    "codes8": [c_void_p] * 3 + [c_int64] * 2,
}
_BF16_SIGNATURES: dict[str, tuple[str, list[Any], Any]] = {
    "paged_prefill": ("paged_prefill", [c_void_p] * 4, None),
    "pack4": ("pack4_bf16", [c_void_p] * 2 + [c_int64] * 2, None),
    "pack8": ("pack8_bf16", [c_void_p] * 3 + [c_int64] * 2, None),
    "step": ("step_bf16", [c_void_p] * 2, None),
    "step_bytes": ("step_bytes", [c_void_p] + [c_int64] * 2, c_int64),
    "wide": ("wide_bf16", [c_void_p] * 4, None),
    "wide_bytes": ("wide_bytes", [c_void_p] * 3, c_int64),
    "pack_panel": ("pack_panel", [c_void_p] * 3 + [c_int64] * 2, None),
    "unpack_panel": ("unpack_panel", [c_void_p] * 3 + [c_int64] * 2, None),
}
"""There is no form of these for fp32, and of those from ``wide`` on only with AMX: the name in C, arguments,
result."""
_SUFFIXES = {torch.bfloat16: "bf16", torch.float32: "f32"}


class Kernels:
    """The functions for one dtype; ``variant`` names the instruction set they were built for."""

    def __init__(self, library: ctypes.CDLL, variant: str, dtype: torch.dtype) -> None:
        self.variant = variant
        self.dtype = dtype
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, f"{name}_{_SUFFIXES[dtype]}")
            function.argtypes = arguments
            function.restype = None
            setattr(self, name, function)
        self.likeliest = library.likeliest
        self.likeliest.argtypes, self.likeliest.restype = [c_void_p, c_int64], c_int64
        for name, (symbol, arguments, result) in _BF16_SIGNATURES.items():
            function = getattr(library, symbol, None) if dtype == torch.bfloat16 else None
            if function is not None:
                function.argtypes, function.restype = arguments, result
            setattr(self, name, function)

    add_norm: Any
    gated: Any
    place: Any
    paged_decode: Any
    codes4: Any
    codes8: Any
    paged_prefill: Any
    """None, like those below, for fp32."""
    pack4: Any
    pack8: Any
    step: Any
    step_bytes: Any
    wide: Any
    """None, like those below, where there is no AMX."""
    wide_bytes: Any
    pack_panel: Any
    unpack_panel: Any


@cache
def kernels(dtype: torch.dtype) -> Kernels | None:
    """The kernels for ``dtype``, or None where ``why_not`` tells the reason.

    Raises UsageError, as ``why_not`` does, where ``CHATKV_NATIVE`` names what can't be had.
    """
    library = _library()
    return None if isinstance(library, str) or dtype not in _SUFFIXES else Kernels(*library, dtype)


def parallel() -> bool:
    """Whether the kernels use more than one core: a compiler without OpenMP (Apple's) makes them for one."""
    library = _library()
    return not isinstance(library, str) and bool(library[0].chatkv_parallel())


def why_not() -> str | None:
    """Why the kernels can't be used, in words; None where they can."""
    library = _library()
    return library if isinstance(library, str) else None


@cache
def _library() -> tuple[ctypes.CDLL, str] | str:
    name = chosen()
    if name == OFF:
        return f"switched off by {VARIABLE}={OFF}"
    wanted = _variants()
    if name is not None:
        if name not in wanted:
            runs = ", ".join(wanted) or "none"
            raise UsageError(
                f"{VARIABLE}={name}: this CPU has no such instructions (of the kernels it runs {runs})"
            )
        wanted = [name]
    # The better ones are missing where the compiler was too old for them.
    problem = NOT_BUILT
    for variant in wanted:
        library = _open(variant)
        if not isinstance(library, str):
            return library, variant
        problem = library if problem == NOT_BUILT else problem
    return problem


def _open(variant: str) -> ctypes.CDLL | str:
    """The library ``variant``, or why it can't be used."""
    path = HERE / f"kernels-{variant}.so"
    if not path.is_file():
        return NOT_BUILT
    try:
        library = ctypes.CDLL(str(path))
        version = library.chatkv_abi()
        granted = version == ABI and library.chatkv_granted()
    except (OSError, AttributeError) as error:
        return f"{path.name} can't be loaded ({error}): install chatkv again"
    if version != ABI:
        return f"{path.name} is from another version of chatkv: install chatkv again"
    return library if granted else f"{path.name} needs what this system does not grant"


def _variants() -> list[str]:
    """Names of the libraries that this CPU can run, the best first."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ["base"]
    capability = torch.backends.cpu.get_cpu_capability()
    found = ["x86-64"]
    if capability in ("AVX2", "AVX512"):
        # Whether the CPU has the first one's instructions, the library says itself.
        found[:0] = ["x86-64-v3-vnni", "x86-64-v3"]
    if capability == "AVX512":
        found.insert(0, "x86-64-v4")
        if torch.cpu._is_vnni_supported():
            found.insert(0, "x86-64-v4-vnni")
            if torch.cpu._is_avx512_bf16_supported():
                found.insert(0, "x86-64-v4-bf16")
                if torch.cpu._is_amx_tile_supported():
                    found.insert(0, "x86-64-v4-amx")
    return found
