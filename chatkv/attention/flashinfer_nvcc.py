"""The compiler that FlashInfer builds its kernels with: where it looks for it, and whether that one fits."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from chatkv.attention.flashinfer_rules import arch

Release = tuple[int, int]

DEFAULT_CUDA = "/usr/local/cuda"
PATIENCE_S = 10
OLDEST: dict[tuple[int, int], Release] = {
    (7, 5): (10, 0),
    (8, 0): (11, 0),
    (8, 6): (11, 1),
    (8, 9): (11, 8),
    (9, 0): (12, 0),
    (10, 0): (12, 8),
    (10, 3): (12, 9),
    (12, 0): (12, 9),
}
"""The first release that compiles for GPUs from a compute capability on (from 9.0 on FlashInfer asks for the
instructions of that GPU alone, as sm_90a)."""


def nvcc() -> str:
    """Its path as FlashInfer finds it; there need be nothing."""
    named = os.environ.get("FLASHINFER_NVCC")
    if named:
        return named
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home:
        return str(Path(home) / "bin" / "nvcc")
    return shutil.which("nvcc") or str(Path(DEFAULT_CUDA) / "bin" / "nvcc")


def release() -> Release | None:
    """That of the compiler; None where there is none that runs."""
    path = shutil.which(nvcc())
    return None if path is None else _release(path)


def misfit(found: Release, torch_cuda: str | None, capability: tuple[int, int] | None) -> str | None:
    """Why kernels of a compiler of this release are none for this torch or GPU, as far as is known."""
    if capability is not None:
        oldest = next((OLDEST[known] for known in sorted(OLDEST, reverse=True) if capability >= known), None)
        if oldest is not None and found < oldest:
            return f"too old for {arch(capability)}: install the CUDA toolkit {_dots(oldest)} or newer"
    if torch_cuda is not None and torch_cuda.partition(".")[0] != str(found[0]):
        return (
            f"another CUDA than torch's {torch_cuda}: install that toolkit, or set CUDA_HOME to it, "
            "else kernels may not load"
        )
    return None


@functools.cache
def _release(path: str) -> Release | None:
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=PATIENCE_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    numbers = re.search(r"release (\d+)\.(\d+)", said)
    return None if numbers is None else (int(numbers[1]), int(numbers[2]))


def _dots(release: Release) -> str:
    return f"{release[0]}.{release[1]}"
