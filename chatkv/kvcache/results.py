"""What the radix tree answers."""

from __future__ import annotations

from typing import NamedTuple

from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.node import Node


class Found(NamedTuple):
    """A lookup that changed nothing.

    ``tokens`` = ``inside`` + all tokens of the nodes above ``node``; ``inside`` tokens of ``node`` match
    (whole blocks). ``idle`` of the matching blocks are not locked now. Once ``RadixTree.settle`` has cut
    the tree at the match, the first block of ``source`` holds the next ``extra`` (< block size) tokens.
    """

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
