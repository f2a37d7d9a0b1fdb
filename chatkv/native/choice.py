"""Which kernels a person wants instead of those taken by themselves: the environment's ``CHATKV_NATIVE``."""

from __future__ import annotations

import os

from chatkv.errors import UsageError

VARIABLE = "CHATKV_NATIVE"
OFF = "0"
NAMES = (
    *("x86-64-v4-amx", "x86-64-v4-bf16", "x86-64-v4-vnni", "x86-64-v4"),
    *("x86-64-v3-vnni", "x86-64-v3", "x86-64", "base"),
)
"""As build.py names them; ``base`` is the one for processors other than x86-64."""
WITH_BF16 = ("x86-64-v4-amx", "x86-64-v4-bf16")
"""Those for CPUs with instructions for products of bf16 matrices."""


def chosen() -> str | None:
    """One of ``NAMES``, ``OFF``, or None: the best this CPU can run. Raises UsageError for anything else.

    Who names one gets what a CPU of that kind gets, so that somebody else's report can be tried here.
    """
    name = os.environ.get(VARIABLE, "").strip()
    if name and name not in (OFF, *NAMES):
        raise UsageError(
            f"{VARIABLE} must be one of {', '.join(NAMES)}, or {OFF} for none of them, got {name!r}"
        )
    return name or None
