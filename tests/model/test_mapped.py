from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from chatkv.model.mapped import give_back


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_memory_is_given_back_and_values_stay(tmp_path: Path) -> None:
    save_file({"x": torch.arange(16 << 20, dtype=torch.int32)}, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", framework="pt") as file:
        tensor = file.get_tensor("x")
        total = int(tensor.sum(dtype=torch.int64))
        before = resident()
        give_back(tensor)
        assert before - resident() > 32 << 20
        assert int(tensor.sum(dtype=torch.int64)) == total
