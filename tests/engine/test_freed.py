"""What loading freed goes back to the system."""

from __future__ import annotations

import platform
import threading
from pathlib import Path

import pytest

from chatkv.engine.freed import return_freed_memory

PIECE, PIECES = 100_000, 600


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what a thread freed")
def test_what_a_thread_freed_is_given_back() -> None:
    kept: list[bytearray] = []

    def load() -> None:
        pieces = [bytearray(b"x" * PIECE) for _ in range(PIECES)]
        kept.append(pieces[-1])  # what stays lies behind what is freed

    worker = threading.Thread(target=load)
    worker.start()
    worker.join()
    before = resident()
    return_freed_memory()
    assert before - resident() > PIECE * PIECES // 2
