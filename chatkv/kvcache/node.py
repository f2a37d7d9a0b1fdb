"""A node of the radix tree, and comparing runs of token ids."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from chatkv.kvcache.events import Int32Array

EMPTY: Int32Array = np.empty(0, dtype=np.int32)


def token_data(tokens: Int32Array) -> bytes:
    """The bytes of int32 ``tokens``, in this machine's order."""
    return tokens.tobytes() if tokens.dtype == np.int32 else tokens.astype(np.int32).tobytes()


def data_tokens(data: bytes) -> Int32Array:
    """The tokens of ``token_data``, int32 [n], read-only."""
    return np.frombuffer(data, dtype=np.int32)


def common_prefix(a: Int32Array, b: Int32Array) -> int:
    """How many leading tokens ``a`` and ``b`` share; whole-array comparison, no loop over tokens."""
    n = min(len(a), len(b))
    if n == 0:
        return 0
    differs = a[:n] != b[:n]
    first = int(differs.argmax())
    return first if differs[first] else n


def common_start(a: bytes, b: bytes) -> int:
    """How many leading tokens two runs of data share: one xor, faster than numpy on a block."""
    n = min(len(a), len(b))
    differs = int.from_bytes(a[:n], "little") ^ int.from_bytes(b[:n], "little")
    # The lowest bit that differs is in the first byte that does.
    return ((differs & -differs).bit_length() - 1) // 32 if differs else n // 4


FEW = 256
"""Up to so many bytes two runs are compared sooner as whole numbers than as arrays."""


def shared_data(a: bytes, b: bytes, at: int) -> int:
    """How many leading bytes, of whole tokens, ``a`` shares with ``b`` from ``b``'s byte ``at`` on."""
    n = min(len(a), len(b) - at)
    if n <= FEW:
        return 4 * common_start(a, b[at : at + n])
    count = n // 4
    differs = np.frombuffer(a, np.int32, count) != np.frombuffer(b, np.int32, count, at)
    first = int(differs.argmax())
    return 4 * (first if differs[first] else count)


NO_CHILDREN: dict[bytes, Node] = {}
NO_ORDER: list[bytes] = []
"""What all nodes without children have in common; never changed."""


class Node:
    """A run of tokens and the blocks with their KV.

    ``len(tokens)`` is a whole number of blocks, except in a *tail*: a leaf of one block that is only
    partly filled. ``children`` is keyed by the bytes of a child's first block of tokens (a tail's: of
    all its tokens); ``order`` holds the same keys sorted where partial matches are wanted: the keys
    that share most with a query are its neighbours there. Change both through ``add_child`` and
    ``drop_child`` only: nodes without children share theirs.
    """

    __slots__ = (
        "after",
        "before",
        "block_data",
        "children",
        "created",
        "data",
        "end",
        "hits",
        "id",
        "last",
        "line",
        "locks",
        "namespace",
        "order",
        "owner",
        "parent",
        "pinned",
        "priority",
        "time",
    )

    def __init__(
        self, id: int, parent: Node | None, data: bytes, block_data: bytes, now: int, namespace: str
    ) -> None:
        self.id = id
        self.parent = parent
        self.data = data
        """The tokens' bytes, four each: whole runs are compared by the C library, without copies."""
        self.block_data = block_data
        """The block ids' bytes, four each: joined along a path without a call for each node."""
        self.end: int = len(data) // 4 + (0 if parent is None else parent.end)
        """How many tokens there are from the root to its end."""
        self.children = NO_CHILDREN
        self.order = NO_ORDER
        self.locks = 0
        self.hits = 0
        self.priority = 0
        self.pinned = False
        self.last = now
        self.created = now
        self.namespace = namespace
        self.owner: int | None = None
        """The request that may still extend this leaf in place."""
        self.line: Line | None = None
        """The line of evictable leaves that it is in: this, and what follows, is ``EvictableLeaves``' own."""
        self.time = 0
        self.before: Node | None = None
        self.after: Node | None = None

    @property
    def tokens(self) -> Int32Array:
        """The token ids, int32 [n], read-only."""
        return data_tokens(self.data)

    @property
    def num_tokens(self) -> int:
        """How many tokens the node holds."""
        return len(self.data) // 4

    @property
    def blocks(self) -> Int32Array:
        """The block ids, int32 [n], read-only."""
        return data_tokens(self.block_data)

    @property
    def num_blocks(self) -> int:
        """How many blocks the node holds."""
        return len(self.block_data) // 4

    @property
    def start(self) -> int:
        """How many tokens there are before it."""
        return self.end - len(self.data) // 4

    def __repr__(self) -> str:
        return f"Node({self.id}, {self.num_tokens} tokens, {self.num_blocks} blocks, locks {self.locks})"

    def key(self, block_size: int) -> bytes:
        """Under which key the parent holds this node."""
        return self.data[: 4 * block_size]

    def is_tail(self, block_size: int) -> bool:
        """True for a leaf of one partly filled block."""
        return 0 < self.num_tokens < block_size

    def add_child(self, key: bytes, child: Node, ordered: bool) -> None:
        """Hold ``child`` under ``key``."""
        if self.children:
            self.children[key] = child
            if ordered:
                insort(self.order, key)
        else:
            self.children = {key: child}
            self.order = [key] if ordered else NO_ORDER

    def drop_child(self, key: bytes, ordered: bool) -> None:
        """Let go of the child under ``key``."""
        if len(self.children) == 1:
            self.children, self.order = NO_CHILDREN, NO_ORDER
            return
        del self.children[key]
        if ordered:
            del self.order[bisect_left(self.order, key)]

    def closest_child(self, probe: bytes) -> tuple[Node | None, int]:
        """The child that shares most leading tokens with ``probe``, and how many (under one block).

        ``probe``: the data of at most one block. Byte order sorts keys so that those with the longest
        common prefix are adjacent.
        """
        order = self.order
        if not order or not probe:
            return None, 0
        at = bisect_left(order, probe)
        best: bytes | None = None
        most = 0
        for key in order[max(at - 1, 0) : at + 1]:
            shared = common_start(key, probe)
            if shared > most:
                best, most = key, shared
        return (None if best is None else self.children[best]), most

    def tail_within(self, key: bytes) -> Node | None:
        """The tail child whose tokens are a proper prefix of ``key``, if there is one.

        No tail is a prefix of a sibling (the tree sees to it), so it can only be the left neighbour.
        """
        at = bisect_left(self.order, key)
        if at == 0:
            return None
        left = self.order[at - 1]
        return self.children[left] if len(left) < len(key) and key.startswith(left) else None

    def covering(self, key: bytes) -> Node | None:
        """A child whose first block already begins with the tokens of ``key``."""
        at = bisect_left(self.order, key)
        if at == len(self.order) or not self.order[at].startswith(key):
            return None
        return self.children[self.order[at]]


class Line:
    """Leaves that agree in ``rank``, in the order of their times: a list linked through the nodes."""

    __slots__ = ("first", "last", "rank")

    def __init__(self, rank: tuple[int, ...]) -> None:
        self.rank = rank
        self.first: Node | None = None
        self.last: Node | None = None
