"""``make run``'s first install says what it does: in place in a terminal, in a few lines elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAID = """\
Looking in indexes: https://pypi.org/simple
Obtaining file:///chatkv
  Installing build dependencies: started
  Installing build dependencies: finished with status 'done'
Collecting numpy>=1.26 (from chatkv==0.1.0)
  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl (16.9 MB)
Collecting torch>=2.6 (from chatkv==0.1.0)
  Obtaining dependency information for torch from https://x/torch-2.9.0-cp311-cp311-linux_x86_64.whl.metadata
  Downloading torch-2.9.0-cp311-cp311-linux_x86_64.whl.metadata (203.0 MB)
  Downloading torch-2.9.0-cp311-cp311-linux_x86_64.whl (203.0 MB)
ARRIVES
Requirement already satisfied: pip in ./site-packages (from x) (23.2.1)
Processing /wheels/mdurl-0.1.2-py3-none-any.whl (from markdown-it-py->x)
Building wheels for collected packages: chatkv
  Building editable for chatkv (pyproject.toml): started
  Building editable for chatkv (pyproject.toml): still running...
  Building editable for chatkv (pyproject.toml): finished with status 'done'
Installing collected packages: numpy, torch, chatkv
WAITS
"""
PIP = """
import os, sys, time
from pathlib import Path
folder = Path(os.environ["TMPDIR"])
ended = Path(sys.argv[-1])
for line in SAID.splitlines():
    if line == "ARRIVES":
        (folder / "pip-unpack-x").mkdir()
        with open(folder / "pip-unpack-x" / "torch-2.9.0-cp311-cp311-linux_x86_64.whl", "wb") as file:
            file.truncate(101_500_000)
    if line in ("ARRIVES", "WAITS"):
        while ended.name == "wait" and not ended.with_name(line).exists():
            time.sleep(0.01)
    else:
        print(line)
if ended.name == "fail":
    sys.exit("ERROR: No space left on device")
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One with a pip that says what a real one said."""
    (tmp_path / "path" / "pip").mkdir(parents=True)
    (tmp_path / "path" / "pip" / "__init__.py").touch()
    (tmp_path / "path" / "pip" / "__main__.py").write_text(f"SAID = {SAID!r}\n{PIP}")
    return os.environ | {"PYTHONPATH": str(tmp_path / "path"), "COLUMNS": "100"}


def command(argument: Path) -> list[str]:
    return [sys.executable, "-P", str(ROOT / "tools" / "install.py"), str(argument)]


def test_in_ci_each_stage_is_a_line(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path / "go"), env=environment, capture_output=True, text=True, check=True
    )
    *lines, last = done.stdout.splitlines()
    assert lines == [
        "  getting what the build needs",
        "  downloading torch (203.0 MB)",
        "  compiling the kernels",
        "  installing 3 packages",
    ]
    assert last.startswith("  installed in 0:")
    assert done.stderr == ""


def test_what_fails_is_told_in_pip_s_words(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path / "fail"), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ERROR: No space left on device"


def test_in_a_terminal_a_line_says_how_far_it_is(environment: dict[str, str], tmp_path: Path) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command(tmp_path / "wait"), env=environment, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    seen = ""

    def until(word: str) -> None:
        nonlocal seen
        while word not in seen:
            seen += os.read(master, 4096).decode()

    until("  downloading torch, 50% of 203 MB · 0:")
    (tmp_path / "ARRIVES").touch()
    until("  installing packages, 0 of 3 · 0:")
    (tmp_path / "WAITS").touch()
    until("\n")
    assert process.wait() == 0
    os.close(master)
    assert seen.rpartition("\x1b[K")[2].startswith("  installed in 0:")
