"""What FlashInfer compiles its kernels with, found as it finds them: nvcc, ninja, a C++ compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from chatkv.attention.flashinfer_library import find_ninja

DEFAULT_CUDA = "/usr/local/cuda"
_PATIENCE_S = 10


class Tool(NamedTuple):
    """``said``: where it is and its version, or what to do where it is missing."""

    name: str
    found: bool
    said: str


def tools() -> list[Tool]:
    """All it needs; each is asked for its version."""
    find_ninja()
    return [
        _tool("nvcc", _nvcc(), "install the CUDA toolkit, or set CUDA_HOME to it", "release"),
        _tool("ninja", "ninja", "pip install ninja", ""),
        _tool("C++ compiler", os.environ.get("CXX", "c++"), "install one (g++), or name it in CXX", ""),
    ]


def driver() -> str | None:
    """The NVIDIA driver's version line; None where there is none."""
    try:
        return Path("/proc/driver/nvidia/version").read_text().splitlines()[0].partition(":")[2].strip()
    except (OSError, IndexError):
        return None


def _nvcc() -> str:
    named = os.environ.get("FLASHINFER_NVCC")
    if named:
        return named
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home:
        return str(Path(home) / "bin" / "nvcc")
    return shutil.which("nvcc") or str(Path(DEFAULT_CUDA) / "bin" / "nvcc")


def _tool(name: str, command: str, missing: str, line_with: str) -> Tool:
    path = shutil.which(command)
    if path is None:
        return Tool(name, False, f"missing ({command}): {missing}")
    try:
        asked = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Tool(name, False, f"{path} does not run: {type(error).__name__}")
    lines = asked.stdout.splitlines()
    line = next((line for line in lines if line_with in line), "")
    if asked.returncode or not line:
        return Tool(name, False, f"{path} does not run: exit code {asked.returncode}")
    return Tool(name, True, f"{path}, {line.strip()}")
