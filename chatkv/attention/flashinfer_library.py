"""Finding and importing FlashInfer. Nothing else of chatkv imports it, and this only when it was chosen.

It is a package of sources: kernels are compiled by nvcc on first use and kept in a cache folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import torch

from chatkv.attention.flashinfer_nvcc import release as nvcc_release
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
    found = nvcc_release()
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
