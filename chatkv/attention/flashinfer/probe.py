"""Whether FlashInfer can be used here: found, imported, its compiler fit, its numbers tried.

Nothing else of chatkv imports the library, and this only when it was chosen. It is a package of sources: nvcc
compiles its kernels on first use into a cache folder.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import math
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.flashinfer.backend import FlashInferBackend
from chatkv.attention.flashinfer.rules import Heads, Limits, arch, refusal
from chatkv.attention.torch_backend import TorchBackend
from chatkv.paths import cache_dir

PACKAGE = "flashinfer-python"
OLDEST, TOO_NEW = (0, 6, 18), (0, 8, 0)
"""Between these the calls in use are the same; the test data hold their signatures."""
INSTALL = "pip install 'chatkv[gpu]'"


class FlashInferError(Exception):
    """FlashInfer can't be used; the message is the reason, without a full stop."""


def version() -> str | None:
    """The installed version, read without importing; None where it isn't installed."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return None


def why_not() -> str | None:
    """Why it can't be imported, as far as can be told without importing it; None: it should work."""
    found = version()
    if found is None or importlib.util.find_spec("flashinfer") is None:
        return f"it isn't installed ({INSTALL})"
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", found)
    if numbers is None or not OLDEST <= tuple(map(int, numbers.groups())) < TOO_NEW:
        wanted = ".".join(map(str, OLDEST)), ".".join(map(str, TOO_NEW))
        return f"version {found} is installed, {wanted[0]} up to, but not including, {wanted[1]} is needed"
    return None


def kernel_cache() -> str:
    """The folder it keeps compiled kernels in (it appends ``.cache/flashinfer/<version>/<arch>``).

    One for each CUDA of torch and release of nvcc: the library's own key has neither, and a kernel of another
    one crashes (flashinfer#5145). A folder the user named stands.
    """
    named = os.environ.get("FLASHINFER_WORKSPACE_BASE")
    return named or str(cache_dir() / "flashinfer" / _cuda())


def kernels_of(base: str) -> Path:
    """Where in that folder those of the installed version lie, a folder an arch."""
    return Path(base) / ".cache" / "flashinfer" / (version() or "unknown")


def _cuda() -> str:
    found = release()
    compiler = "" if found is None else f"-nvcc-{found[0]}.{found[1]}"
    return f"cuda-{torch.version.cuda or 'none'}{compiler}"


def find_ninja() -> None:
    """It starts ``ninja`` by that name. pip puts it beside the interpreter, which need not be on the path."""
    beside = Path(sys.executable).parent
    if shutil.which("ninja") is None and shutil.which("ninja", path=str(beside)) is not None:
        os.environ["PATH"] = f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def load() -> ModuleType:
    """Import it (over a second); raises FlashInferError where that fails."""
    problem = why_not()
    if problem is not None:
        raise FlashInferError(problem)
    os.environ["FLASHINFER_WORKSPACE_BASE"] = kernel_cache()
    find_ninja()
    # It logs to stderr, which is where the screen is drawn.
    os.environ.setdefault("FLASHINFER_LOGGING_LEVEL", "error")
    try:
        return importlib.import_module("flashinfer")
    except Exception as error:  # a broken installation raises whatever it likes
        first = str(error).strip().partition("\n")[0]
        raise FlashInferError(f"importing it failed: {type(error).__name__}: {first}") from error


Release = tuple[int, int]

DEFAULT_CUDA = "/usr/local/cuda"
PATIENCE_S = 10
FIRST_RELEASE: dict[tuple[int, int], Release] = {
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
        oldest = next(
            (FIRST_RELEASE[known] for known in sorted(FIRST_RELEASE, reverse=True) if capability >= known),
            None,
        )
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


logger = logging.getLogger(__name__)

TOLERANCE = 0.04
"""Of outputs about 1 in size: bf16 keeps 8 bits, and scores, weights and results are each rounded."""
_TRIALS = {
    "a prefill step": [(5, 5), (1, 40), (70, 90)],
    "a decode step": [(1, 1), (1, 75), (1, 33)],
}
"""(new, in all) tokens of each request."""


def start(
    heads: Heads, device: torch.device, capability: tuple[int, int], limits: Limits
) -> FlashInferBackend:
    """A backend whose answers to two small steps were right on ``device``.

    Where only decode with fixed addresses fails, its ``no_graphs`` says why. Compiles what isn't compiled
    yet, which takes minutes, once. Raises FlashInferError with the reason where nothing of it can be had.
    """
    problem = refusal(heads, capability)
    if problem is not None:
        raise FlashInferError(problem)
    library = load()
    try:
        backend = FlashInferBackend(library, heads, device, limits)
        problem = trial(backend, heads, device, limits.block_size)
    except Exception as error:
        # Not a fault of chatkv: into the log, where there is one, and never onto a terminal.
        logger.info("FlashInfer could not be started", exc_info=True)
        raise FlashInferError(f"its kernels can't be compiled or run here: {telling(error)}") from error
    if problem is not None:
        raise FlashInferError(problem)
    try:
        problem = graph_trial(backend, heads, device, limits.block_size)
    except Exception as error:
        logger.info("a graph's step could not be tried", exc_info=True)
        problem = telling(error)
        try:
            torch.zeros(1, device=device).cpu()
        except RuntimeError as fault:  # nothing can be computed on it any more
            raise FlashInferError(f"a graph's step broke the device: {telling(fault)}") from error
    if problem is not None:
        backend.no_graphs = f"FlashInfer can't decode for them: {problem}"
    return backend


def telling(error: Exception) -> str:
    """The line of an error that says most: a failed build has a compiler's whole output in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if "Ninja build failed" not in str(error):
        return lines[0] if lines else type(error).__name__
    faults = (line for line in lines if re.search(r"\b(error|fatal|not found)\b", line, re.IGNORECASE))
    return f"the build failed: {next(faults, lines[-1])}"


def trial(backend: FlashInferBackend, heads: Heads, device: torch.device, block_size: int) -> str | None:
    """What is wrong with the backend's numbers, compared with torch's in fp32; None where nothing is."""
    for step, lens in _TRIALS.items():
        batch, q, kv = _tensors(lens, heads, device, block_size)
        backend.plan(batch)
        if (problem := _wrong(step, backend.run(q, kv), batch, q, kv)) is not None:
            return problem
    return None


def graph_trial(
    backend: FlashInferBackend, heads: Heads, device: torch.device, block_size: int
) -> str | None:
    """As ``trial``, for a decode step with fixed addresses and a padded row; nothing is captured."""
    step = "a decode step"
    batch, q, kv = _tensors(_TRIALS[step], heads, device, block_size)
    requests = len(q)
    graph = backend.graph(requests + 1, 2 * len(batch.kv_indices))
    graph.plan(batch)
    found = graph.run(torch.cat((q, q[:1])), kv)[:requests]
    return _wrong(f"{step} of a graph", found, batch, q, kv)


def _tensors(
    lens: list[tuple[int, int]], heads: Heads, device: torch.device, block_size: int
) -> tuple[PagedBatch, torch.Tensor, torch.Tensor]:
    """A batch, its queries and a KV, the same each time."""
    batch, blocks = _batch(lens, block_size)
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(int(batch.qo_indptr[-1]), heads.heads, heads.head_dim, generator=generator)
    kv = torch.randn(blocks, 2, block_size, heads.kv_heads, heads.head_dim, generator=generator)
    return batch, q.to(heads.dtype).to(device), kv.to(heads.dtype).to(device)


def _wrong(
    step: str, found: torch.Tensor, batch: PagedBatch, q: torch.Tensor, kv: torch.Tensor
) -> str | None:
    reference = TorchBackend(q.device)
    reference.plan(batch)
    off = float((found.float() - reference.run(q.float(), kv.float())).abs().max())
    if not off <= TOLERANCE:  # nan is wrong, too
        return f"its numbers are wrong here: {step} was off by {off:.2g} from torch's"
    return None


def _batch(lens: list[tuple[int, int]], block_size: int) -> tuple[PagedBatch, int]:
    """A batch over blocks that lie in reverse order, and how many there are."""
    pages = [math.ceil(total / block_size) for _, total in lens]
    blocks = sum(pages)
    batch = PagedBatch(
        qo_indptr=np.cumsum([0, *(new for new, _ in lens)]).astype(np.int32),
        kv_indptr=np.cumsum([0, *pages]).astype(np.int32),
        kv_indices=np.arange(blocks, dtype=np.int32)[::-1].copy(),
        last_page_len=np.array([(total - 1) % block_size + 1 for _, total in lens], dtype=np.int32),
        block_size=block_size,
    )
    return batch, blocks
