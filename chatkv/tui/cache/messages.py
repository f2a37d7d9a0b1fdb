"""What the cache widgets tell whoever holds them."""

from __future__ import annotations

from textual.message import Message


class NodeSelected(Message):
    """A person asks for this node (its id; it may be an evicted one)."""

    def __init__(self, node: int) -> None:
        super().__init__()
        self.node = node


class PinWanted(Message):
    """A person wants this node of the tree to be evicted last, or no longer."""

    def __init__(self, node: int, pinned: bool) -> None:
        super().__init__()
        self.node = node
        self.pinned = pinned


class BlockSelected(Message):
    """A person asks for this physical block."""

    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block
