"""Every page under examples/ runs as it stands, from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, folder: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *args],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_page_is_tested_and_listed() -> None:
    pages = {page.name for page in EXAMPLES.glob("*.py")}
    tested = Path(__file__).read_text()
    listed = (EXAMPLES / "README.md").read_text()
    assert pages
    assert {page for page in pages if f'"{page}"' not in tested} == set()
    assert {page for page in pages if f"`{page}`" not in listed} == set()


@pytest.mark.model
@pytest.mark.usefixtures("smollm2_folder")
def test_generate(tmp_path: Path) -> None:
    said = run("generate.py", tmp_path)
    first, second, *_ = said.splitlines()
    assert first.startswith("0 reused")
    assert second.startswith("4 reused")
    assert "tokens reused" in said
    assert (tmp_path / "cache.svg").read_text().startswith("<svg")


def test_cache_core(tmp_path: Path) -> None:
    said = run("cache_core.py", tmp_path).splitlines()
    for line, (request, reused) in zip(said, ((1, 0), (2, 18), (3, 16)), strict=False):
        assert line == f"request {request}: {reused} of 21 tokens reused"
    assert "0 reused" in said[3]
    assert "Radix tree" in "\n".join(said)


def test_replay_trace(tmp_path: Path) -> None:
    rows = [line.split() for line in run("replay_trace.py", tmp_path).splitlines()[1:]]
    rates = {(kind, blocks): float(rate.rstrip("%")) for kind, blocks, rate, _ in rows}
    assert rates["radix", "160"] >= rates["radix", "80"] >= rates["radix", "40"] > 0
    assert rates["radix", "160"] >= rates["hash", "160"]
