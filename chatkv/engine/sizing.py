"""How many blocks the KV pool gets."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from chatkv.engine.config import EngineConfig, EngineError

DEFAULT_KV_MEMORY = 512 << 20
"""Bytes: a pool this large holds tens of long chats with a small model and fits a laptop."""
GPU_KV_MEMORY = 4 << 30
"""Bytes on a GPU: as many chats with a model of 7B parameters. ``--kv-memory`` gives it more."""
FREE_SHARE = 4
"""Without a size given, the pool takes at most one part in this many of the free memory."""
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_CGROUP_STAT = Path("/sys/fs/cgroup/memory.stat")
_CGROUP_USED = Path("/sys/fs/cgroup/memory.current")


def free_memory() -> int:
    """Bytes of memory that this process may still take (the container's limit counted)."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) << 10
    except (OSError, ValueError):  # not Linux: assume that half of the memory is in use
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    with suppress(OSError, ValueError):  # no limit ("max"), or no such files
        # What only caches files counts as used there, but is given up when memory is asked for.
        stat = dict(line.split() for line in _CGROUP_STAT.read_text().splitlines())
        used = int(_CGROUP_USED.read_text()) - int(stat.get("inactive_file", 0))
        free = min(free, int(_CGROUP_LIMIT.read_text()) - used)
    return max(free, 0)


def default_kv_memory(free_bytes: int, *, gpu: bool = False) -> int:
    """Bytes a pool takes where no size is given and ``free_bytes`` are left."""
    return min(GPU_KV_MEMORY if gpu else DEFAULT_KV_MEMORY, free_bytes // FREE_SHARE)


def pool_blocks(
    config: EngineConfig, bytes_per_block: int, free_bytes: int, *, gpu: bool = False, room: int = 0
) -> int:
    """The number of blocks for ``config``; ``free_bytes`` is what the device has left, ``room`` what of that
    is not for the pool.

    Raises EngineError where not even one block fits, or a given size exceeds what is free.
    """
    free = max(free_bytes - room, 0)
    are_free = f"{_mib(free)} are free"
    if room:
        are_free += f" beside {_mib(room)} for activations, workspaces and graphs"
    if config.num_blocks is not None:
        wanted = config.num_blocks * bytes_per_block
        if wanted > free:
            raise EngineError(
                f"--num-blocks {config.num_blocks} needs {_mib(wanted)}, {are_free}: "
                f"give at most {free // bytes_per_block}"
            )
        return config.num_blocks
    memory = config.kv_memory
    if memory is None:
        memory = default_kv_memory(free, gpu=gpu)
    elif memory > free:
        raise EngineError(f"--kv-memory {_mib(memory)} is too much, {are_free}: give less")
    blocks = memory // bytes_per_block
    if blocks < 1:
        problem = (
            f"a KV pool of {_mib(memory)} holds no block of {config.block_size} tokens "
            f"({_mib(bytes_per_block)})"
        )
        if free < bytes_per_block:
            raise EngineError(f"{problem}: {are_free}")
        raise EngineError(f"{problem}: give more with --kv-memory or a smaller --block-size")
    return blocks


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
