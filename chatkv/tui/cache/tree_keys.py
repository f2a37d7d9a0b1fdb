"""What rows of the tree are called: a live node by its id, an evicted one by a negative key."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def ghost_key(ghost: int) -> int:
    """The row key of a ghost, given its key in ``Mirror.ghosts``: even for a node, odd for a node's end."""
    return -2 * ghost if ghost > 0 else 2 * ghost - 1


def ghost_of(key: int) -> int:
    """The key in ``Mirror.ghosts`` of the ghost in row ``key`` < 0."""
    return (-key - 1) // -2 if key % 2 else -key // 2


def node_of(key: int) -> int:
    """The id of the node, live or evicted, in row ``key``."""
    return key if key >= 0 else abs(ghost_of(key))


def upwards(keys: Iterable[int], above: Callable[[int], int | None]) -> list[int]:
    """``keys`` and all that is above them, each once, and each before what is above it.

    ``above``: a key → the key above it; None above the root.
    """
    seen: set[int] = set()
    chains: list[list[int]] = []
    for key in keys:
        chain: list[int] = []
        at: int | None = key
        while at is not None and at not in seen:
            seen.add(at)
            chain.append(at)
            at = above(at)
        chains.append(chain)
    # A chain ends below a node of an earlier one, so the later ones stand first.
    return [key for chain in reversed(chains) for key in chain]
