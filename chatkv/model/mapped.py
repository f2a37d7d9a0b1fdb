"""Memory of tensors that are a file's pages, mapped."""

from __future__ import annotations

import ctypes
import mmap
import sys

import torch


def give_back(tensor: torch.Tensor) -> None:
    """Let go of the memory of ``tensor``, which must be mapped from a file and unchanged.

    Its values stay: whoever reads them again has them read from the file. Only Linux can do this; elsewhere
    nothing happens.
    """
    if sys.platform != "linux":
        return
    page, start = mmap.PAGESIZE, tensor.data_ptr()
    end = (start + tensor.nbytes) // page * page
    start = -(-start // page) * page
    if end > start:
        libc = ctypes.CDLL(None)
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)
