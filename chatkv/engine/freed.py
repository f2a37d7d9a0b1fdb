"""Memory that loading took and freed, back to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def return_freed_memory() -> None:
    """glibc keeps what a thread freed for that thread's next needs: 200 MiB after a model was loaded.

    Elsewhere it does nothing.
    """
    with suppress(OSError, AttributeError, TypeError):  # no such C library
        ctypes.CDLL(None).malloc_trim(0)
