"""``make run`` fetches the default model only where it is the one to be run."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize("target", ["run", "bench"])
@pytest.mark.parametrize(
    ("args", "fetches"),
    [
        ("", True),
        ("--theme chatkv-light", True),
        ("--model X", False),
        ("--seed 1 --model=X", False),
    ],
)
def test_the_default_model_is_fetched_when_it_is_needed(target: str, args: str, fetches: bool) -> None:
    command = ["make", "--dry-run", target, f"ARGS={args}"]
    plan = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ("chatkv fetch" in plan) == fetches
    assert f"chatkv {target} {args}".rstrip() in plan
