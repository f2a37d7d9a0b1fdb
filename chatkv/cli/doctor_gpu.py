"""What ``chatkv doctor`` says of GPUs: which there are, and whether FlashInfer serves them."""

from __future__ import annotations

import os

import torch

from chatkv.attention.flashinfer import probe
from chatkv.attention.flashinfer.rules import OLDEST_GPU, arch
from chatkv.cli.doctor_tools import driver, tools
from chatkv.engine.devices import cuda_problem, pick


def gpu_rows() -> list[tuple[str, str]]:
    """Rows of the table; nothing is compiled for them, and FlashInfer isn't imported."""
    problem = cuda_problem()
    notes: list[str] = []
    place = pick("auto", notes)
    rows = [("GPU", problem)] if problem else [_gpu(index) for index in range(torch.cuda.device_count())]
    if found := driver():
        rows.append(("GPU driver", found))
    if torch.version.cuda is not None:
        rows.append(("CUDA of torch", torch.version.cuda))
    rows.append(("FlashInfer", _flashinfer(place.capability)))
    # Whether or not it is there: who is about to install it wants to know what else is missing.
    rows += [(f"FlashInfer: {tool.name}", tool.said) for tool in tools(torch.version.cuda, place.capability)]
    rows += _kernels()
    rows.append(("--device auto", "; ".join((str(place.device), *notes))))
    return rows


def _gpu(index: int) -> tuple[str, str]:
    found = torch.cuda.get_device_properties(index)
    return (
        f"GPU {index}",
        f"{found.name}, {arch((found.major, found.minor))}, {found.total_memory >> 20:,} MiB",
    )


def _flashinfer(capability: tuple[int, int] | None) -> str:
    problem = probe.why_not()
    if problem is not None:
        return f"can't be had: {problem}"
    version = f"{probe.version()} is installed"
    if capability is None:
        return f"{version}, but serves NVIDIA GPUs only"
    if capability < OLDEST_GPU:
        return f"{version}, but serves GPUs of {arch(OLDEST_GPU)} and newer only"
    return f"{version}; it is tried when the engine starts, 'chatkv doctor --compile' does so now"


def _kernels() -> list[tuple[str, str]]:
    """Their folder, whose name is the key (torch's CUDA and nvcc's release), and how many there are."""
    base = probe.kernel_cache()
    folder = probe.kernels_of(base)
    compiled = sorted({file.parent.name for file in folder.glob("*/cached_ops/*/*.so")})
    return [
        ("FlashInfer: kernels in", f"{base}{unwritable(base)}"),
        ("FlashInfer: kernels", f"{len(compiled)} compiled for version {folder.name}"),
    ]


def unwritable(folder: str | os.PathLike[str]) -> str:
    """A remark where ``folder``, or what it will be made in, can't be written."""
    path = os.fspath(folder)
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return "" if os.access(path, os.W_OK) else f" (can't be written: {path})"
