"""Misuse of the cache core: each names the fault and the object, and leaves the state as it was."""

from __future__ import annotations


class CacheError(Exception):
    """Base of all errors of the cache core."""


class UnknownRequestError(CacheError):
    """No row in the block table has this request id."""


class DuplicateRequestError(CacheError):
    """A row with this request id is already open."""


class ReleaseError(CacheError):
    """A block was released, or a path unlocked, more often than it was taken."""


class IntegrityError(CacheError):
    """``check_integrity`` found the state to contradict itself: a fault of the core, never of its caller."""
