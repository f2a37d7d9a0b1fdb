"""Where to compute: the CPU or a GPU, how much memory there is, and why a GPU can't be had."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import torch

from chatkv.engine import sizing
from chatkv.engine.config import EngineError

Capability = tuple[int, int]


class Place(NamedTuple):
    """``capability`` is a GPU's compute capability, and None for the CPU."""

    device: torch.device
    name: str = ""
    capability: Capability | None = None


CPU = Place(torch.device("cpu"))


def pick(name: str, notes: list[str]) -> Place:
    """The place for ``EngineConfig.device``. ``auto`` is the first GPU that computes, else the CPU.

    Appends to ``notes`` what a person should know. Raises EngineError where the GPU named can't be had.
    """
    if name == "cpu":
        return CPU
    problem = cuda_problem()
    index = int(name.partition(":")[2] or 0)
    if problem is None and index >= (count := torch.cuda.device_count()):
        problem = f"there is no GPU {index}, the last one is cuda:{count - 1}"
    if problem is None:
        device = torch.device("cuda", index)
        problem = _trouble(device)
        if problem is None:
            capability = torch.cuda.get_device_capability(device)
            return Place(device, torch.cuda.get_device_name(device), capability)
    if name != "auto":
        raise EngineError(f"--device {name} can't be had: {problem}; use --device cpu")
    if has_driver():
        notes.append(f"computing on the CPU, though there is an NVIDIA driver: {problem}")
    return CPU


def cuda_problem() -> str | None:
    """Why torch can't use any GPU here; None where it can."""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "torch finds no GPU, or no driver for one"
    return None


def has_driver() -> bool:
    """Whether this system has an NVIDIA driver, whatever torch can do."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def free_memory(device: torch.device) -> int:
    """Bytes of ``device``'s memory that may still be taken."""
    if device.type != "cuda":
        return sizing.free_memory()
    # What torch keeps for itself is free as well.
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + kept)


def _trouble(device: torch.device) -> str | None:
    """What is wrong with a GPU that is there: too old for this torch, in use by someone alone, broken."""
    try:
        if float(torch.ones(1, device=device).add_(1)) == 2:
            return None
        return f"{device} computes wrong numbers"
    except RuntimeError as error:
        said = str(error).strip().partition("\n")[0]
        return f"{device} can't compute: {said}"
