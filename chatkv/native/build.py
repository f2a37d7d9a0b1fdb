"""Compile ``kernels.c`` beside itself, one library for each kind of CPU it may meet.

A hook of the wheel build (editable installs too), and ``python chatkv/native/build.py`` by hand.
Nothing depends on it: without a compiler the package installs all the same and runs on torch.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Sums may be reordered and products fused, as in any vector library; not -ffast-math, which would
# make the whole process flush subnormal numbers and assume that infinities don't exist.
FLAGS = [
    "-std=gnu11",
    "-O3",
    "-fno-math-errno",
    "-fassociative-math",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-shared",
    "-fPIC",
    "-w",
]
TIMEOUT_S = 900
"""For one library: 15 seconds of an idle core, but machines are busy, and some are slow."""
_V4 = ["-march=x86-64-v4", "-mprefer-vector-width=512"]
_BF16 = [*_V4, "-mavx512bf16", "-mavx512vnni"]
VARIANTS = {
    "x86-64-v4-amx": [*_BF16, "-mamx-tile", "-mamx-bf16"],
    "x86-64-v4-bf16": _BF16,
    "x86-64-v4-vnni": [*_V4, "-mavx512vnni"],
    "x86-64-v4": _V4,
    "x86-64-v3-vnni": ["-march=x86-64-v3", "-mavxvnni"],
    "x86-64-v3": ["-march=x86-64-v3"],
}


OLD_X86 = {"x86-64": ["-march=x86-64"]}
"""For a CPU without AVX2: compiled by one only, as it takes as long as three of the others."""


def variants() -> dict[str, list[str]]:
    """Name → flags, for the machine that compiles."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return {"base": []}
    return VARIANTS if _has_avx2() else {**VARIANTS, **OLD_X86}


def _has_avx2() -> bool:
    """Whether this CPU has it; taken for granted where Linux does not say so."""
    try:
        return " avx2 " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return True


def build(folder: Path = HERE) -> list[Path]:
    """Compile into ``folder``, as many at a time as there are cores; the libraries that came out.

    None where there is no compiler.
    """
    compiler = os.environ.get("CC") or next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if compiler is None:
        return []
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        made = [workers.submit(_compile, compiler, *kind, folder) for kind in variants().items()]
    return [path for path in (work.result() for work in made) if path is not None]


def _is_newer(library: Path) -> bool:
    """Return whether it was made from the sources as they are: building a wheel compiles nothing twice."""
    sources = (*HERE.glob("*.[ch]"), Path(__file__))
    try:
        return library.stat().st_mtime > max(source.stat().st_mtime for source in sources)
    except OSError:
        return False


def _compile(compiler: str, name: str, flags: list[str], folder: Path) -> Path | None:
    target = folder / f"kernels-{name}.so"
    if _is_newer(target):
        return target
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        out = Path(aside) / target.name
        # Apple's compiler has no OpenMP of its own: then one thread.
        for openmp in (["-fopenmp"], []):
            command = [*compiler.split(), *FLAGS, *flags, *openmp, str(HERE / "kernels.c"), "-o", str(out)]
            try:
                done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S)
            except (OSError, subprocess.TimeoutExpired):
                return None
            if done.returncode == 0:
                out.replace(target)
                return target
    return None


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # by hand
    pass
else:

    class KernelsHook(BuildHookInterface[Any]):  # type: ignore[misc]
        """Puts the libraries into the wheel, which is then for this platform only."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called by hatchling before the wheel is written."""
            made = build()
            build_data["artifacts"] += [f"chatkv/native/{path.name}" for path in made]
            if made:
                build_data["pure_python"] = False
                tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
                build_data["tag"] = f"py3-none-{tag}"


if __name__ == "__main__":
    libraries = build()
    for library in libraries:
        print(library)
    sys.exit(0 if libraries else "no C compiler worked: chatkv runs on torch's operators")
