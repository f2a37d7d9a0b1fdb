"""The kernels on processors that this machine is not: compiled for them, run under an emulator.

What they give is compared with this machine's on the same inputs (portable.c). By hand, with Debian's
gcc-aarch64-linux-gnu and qemu-user: ``pytest -m nightly tests/native/test_portable.py``; minutes.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from chatkv.native.build import FLAGS, OLD_X86, VARIANTS

SOURCE = Path(__file__).with_name("portable.c")
EXACT = ("pack4", "pack8", "codes4", "likeliest")
"""Whole numbers: of weights, and an index."""

Told = list[tuple[str, npt.NDArray[np.float64]]]


def told(compiler: str, flags: list[str], emulator: list[str], folder: Path) -> Told:
    """What the program says, compiled with ``flags`` after the product's own."""
    program = folder / Path(compiler).name
    given = [flag for flag in FLAGS if flag not in ("-shared", "-fPIC")]
    command = [compiler, *given, "-fopenmp", *flags, str(SOURCE), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, timeout=280)
    done = subprocess.run([*emulator, str(program)], check=True, capture_output=True, text=True, timeout=200)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(name, np.array(values, dtype=np.float64)) for name, *values in lines]


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here")
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("processor", ["aarch64", "x86-64 of the first days"])
def test_elsewhere_they_give_what_they_give_here(processor: str, tmp_path: Path) -> None:
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("the reference is made on x86-64")
    # The flags that install time gives there; only the reference is compiled in a hurry.
    if processor == "aarch64":
        emulator = [tool("qemu-aarch64")]
        there = told(tool("aarch64-linux-gnu-gcc"), ["-static"], emulator, tmp_path)
    else:
        there = told(tool("gcc"), OLD_X86["x86-64"], [], tmp_path)
    same = told(tool("cc"), ["-O1", *VARIANTS["x86-64-v3"]], [], tmp_path)
    assert [(name, len(values)) for name, values in there] == [(name, len(values)) for name, values in same]
    for (name, got), (_, want) in zip(there, same, strict=True):
        if name in EXACT:
            assert np.array_equal(got, want, equal_nan=True), name
            continue
        size = np.sqrt(np.mean(want**2))
        if name.endswith((".f32", ".scales", ".steps")):
            assert np.abs(got - want).max() <= 5e-6 * size, name
            continue
        # Sums in another order: a value near the middle of two of bf16 goes to the other one, now and then.
        assert np.sqrt(np.mean((got - want) ** 2)) <= 2e-3 * size, name
        assert np.abs(got - want).max() <= 0.05 * max(size, 1.0), name
