"""What FlashInfer compiles its kernels with, found as it finds them: nvcc, ninja, a C++ compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from chatkv.attention.flashinfer.probe import PATIENCE_S, find_ninja, misfit, nvcc, release


class Tool(NamedTuple):
    """``said``: where it is and its version, or what to do where it is missing."""

    name: str
    found: bool
    said: str


def tools(torch_cuda: str | None = None, capability: tuple[int, int] | None = None) -> list[Tool]:
    """All it needs; each is asked for its version. Given torch's CUDA, and a GPU's compute capability, also
    whether nvcc fits them.
    """
    find_ninja()
    return [
        _fitting(
            _tool("nvcc", nvcc(), "install the CUDA toolkit, or set CUDA_HOME to it", "release"),
            torch_cuda,
            capability,
        ),
        _tool("ninja", "ninja", "pip install ninja", ""),
        _tool("C++ compiler", os.environ.get("CXX", "c++"), "install one (g++), or name it in CXX", ""),
    ]


def driver() -> str | None:
    """The NVIDIA driver's version line; None where there is none."""
    try:
        return Path("/proc/driver/nvidia/version").read_text().splitlines()[0].partition(":")[2].strip()
    except (OSError, IndexError):
        return None


def _fitting(tool: Tool, torch_cuda: str | None, capability: tuple[int, int] | None) -> Tool:
    found = release() if tool.found else None
    problem = None if found is None else misfit(found, torch_cuda, capability)
    return tool if problem is None else Tool(tool.name, False, f"{tool.said}: {problem}")


def _tool(name: str, command: str, missing: str, line_with: str) -> Tool:
    path = shutil.which(command)
    if path is None:
        return Tool(name, False, f"missing ({command}): {missing}")
    try:
        asked = subprocess.run(
            [path, "--version"], capture_output=True, text=True, errors="replace", timeout=PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Tool(name, False, f"{path} does not run: {type(error).__name__}")
    lines = asked.stdout.splitlines()
    line = next((line for line in lines if line_with in line), "")
    if asked.returncode or not line:
        return Tool(name, False, f"{path} does not run: exit code {asked.returncode}")
    return Tool(name, True, f"{path}, {line.strip()}")
