"""What the radix tree and the caches answer."""

from __future__ import annotations

from typing import Any, NamedTuple

from chatkv.kvcache.block_hash import Hash
from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.node import Node


class Lookup:
    """What a cache found of one request's prompt: kept with the request, filled in by the cache.

    Whoever asks about the same prompt again, as it is or longer, gives it along, and nothing is looked up
    or hashed twice. It belongs to one cache.
    """

    __slots__ = ("clock", "found", "hashes", "tokens")

    def __init__(self) -> None:
        self.hashes: list[Hash] = []
        """Of the prompt's first blocks, those that were asked for."""
        self.found: Any = None
        """The cache's own; good for a prompt of ``tokens`` tokens while its clock stands at ``clock``."""
        self.clock = 0
        self.tokens = 0

    def current(self, clock: int, tokens: int) -> bool:
        """Whether what was ``found`` is still so, and was for as many tokens."""
        return self.found is not None and self.clock == clock and self.tokens == tokens

    def set(self, clock: int, tokens: int, found: object) -> None:
        """``found`` is so at ``clock``."""
        self.clock, self.tokens, self.found = clock, tokens, found


class Found(NamedTuple):
    """A lookup that changed nothing.

    ``path``: the nodes that match whole, the root first. ``tokens`` = ``inside`` + all tokens of the nodes
    above ``node``; ``inside`` tokens of ``node`` match (whole blocks). ``idle`` of the matching blocks are
    not locked now. Once ``RadixTree.settle`` has cut the tree at the match, the first block of ``source``
    holds the next ``extra`` (< block size) tokens.
    """

    path: list[Node]
    node: Node
    inside: int
    tokens: int
    idle: int
    source: Node | None
    extra: int


class Match(NamedTuple):
    """The longest cached prefix: it ends exactly at the end of ``node``; ``blocks`` hold its KV."""

    node: Node
    blocks: Int32Array
    tokens: int


class Inserted(NamedTuple):
    """``present`` tokens were in the tree before; ``node`` is where the inserted run ends, or in which.

    ``dropped`` are blocks of a tail that the new node made superfluous.
    """

    node: Node
    present: int
    dropped: Int32Array


class Evicted(NamedTuple):
    """``blocks`` left the tree with ``tokens`` tokens in all."""

    blocks: Int32Array
    tokens: int
