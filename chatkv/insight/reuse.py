"""How many tokens were reused, in words that mean the same wherever they stand.

Reused is what needed no computing: tokens in whole blocks that are shared, and those copied out of a block of
which only the beginning is the same, because a block can't be shared in part.
"""

from __future__ import annotations


def reused(tokens: int, copied: int) -> str:
    """``384 (12 copied)``; ``copied`` of the ``tokens`` are."""
    return f"{tokens:,} ({copied:,} copied)" if copied else f"{tokens:,}"
