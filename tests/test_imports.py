"""What importing chatkv must not drag in."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]

ALL = """
import importlib, pkgutil, sys, chatkv
names = [m.name for m in pkgutil.walk_packages(chatkv.__path__, "chatkv.")]
# The build step runs with hatchling where the package is built; compiled kernels are no Python modules.
names = [n for n in names if not n.startswith(("chatkv.native.build", "chatkv.native.kernels"))]
assert len(names) > 150, names
for name in names:
    importlib.import_module(name)
print([name for name in ("flashinfer", "tvm_ffi", "triton") if name in sys.modules])
"""


def test_no_module_imports_flashinfer() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALL], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_flashinfer_is_an_extra_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [d for d in project["dependencies"] if "flashinfer" in d or "tvm" in d]
    assert project["optional-dependencies"]["gpu"] == [
        "flashinfer-python>=0.6.18,<0.8; sys_platform == 'linux'",
        "apache-tvm-ffi>=0.1.11,<0.2",
    ]
