"""What ``chatkv doctor`` says of GPUs: which there are, and whether FlashInfer serves them."""

from __future__ import annotations

import torch

from chatkv.attention import flashinfer_library
from chatkv.attention.flashinfer_rules import OLDEST_GPU, arch
from chatkv.attention.flashinfer_tools import driver, tools
from chatkv.engine.devices import cuda_problem, pick


def gpu_rows() -> list[tuple[str, str]]:
    """Rows of the table; nothing is compiled for them, and FlashInfer isn't imported."""
    problem = cuda_problem()
    notes: list[str] = []
    place = pick("auto", notes)
    rows = [("GPU", problem)] if problem else [_gpu(index) for index in range(torch.cuda.device_count())]
    if found := driver():
        rows.append(("GPU driver", found))
    rows.append(("FlashInfer", _flashinfer(place.capability)))
    if place.capability is not None and flashinfer_library.why_not() is None:
        rows.append(("CUDA of torch", str(torch.version.cuda)))
        rows += [(tool.name, tool.said) for tool in tools()]
    rows.append(("--device auto", "; ".join((str(place.device), *notes))))
    return rows


def _gpu(index: int) -> tuple[str, str]:
    found = torch.cuda.get_device_properties(index)
    return (
        f"GPU {index}",
        f"{found.name}, {arch((found.major, found.minor))}, {found.total_memory >> 20:,} MiB",
    )


def _flashinfer(capability: tuple[int, int] | None) -> str:
    problem = flashinfer_library.why_not()
    if problem is not None:
        return f"can't be had: {problem}"
    version = f"{flashinfer_library.version()} is installed"
    if capability is None:
        return f"{version}, but serves NVIDIA GPUs only"
    if capability < OLDEST_GPU:
        return f"{version}, but serves GPUs of {arch(OLDEST_GPU)} and newer only"
    return f"{version}; it is tried when the engine starts; kernels in {flashinfer_library.kernel_cache()}"
