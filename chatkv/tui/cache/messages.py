"""What the cache widgets tell whoever holds them."""

from __future__ import annotations

from textual.message import Message

from chatkv.insight.kinds import Touched


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


class EventSelected(Message):
    """A person asks what this event is about."""

    def __init__(self, seq: int, about: Touched) -> None:
        super().__init__()
        self.seq = seq
        self.about = about


class BlockSelected(Message):
    """A person asks for this physical block."""

    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block


class TreeWanted(Message):
    """A person wants to go to the node of the tree that holds this physical block."""

    def __init__(self, block: int) -> None:
        super().__init__()
        self.block = block


class MapWanted(Message):
    """A person wants to go to these physical blocks in the map of the pool; ``what`` they are, in words."""

    def __init__(self, blocks: tuple[int, ...], what: str) -> None:
        super().__init__()
        self.blocks = blocks
        self.what = what


class NodeWanted(Message):
    """A person wants to go to this node in the tree."""

    def __init__(self, node: int) -> None:
        super().__init__()
        self.node = node


class SessionWanted(Message):
    """A person wants the session that the engine calls ``key`` on the screen."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
