"""One glyph and one colour for each state, the same in every widget.

The glyph alone says the state, so nothing is lost with ``NO_COLOR`` or to a colour-blind eye. The
colours are theme variables (``$kv-new`` …), reached through component classes.
"""

from __future__ import annotations

from enum import Enum

from chatkv.insight.kinds import KINDS, UNTOLD
from chatkv.insight.nodes import BlockState, Node
from chatkv.kvcache.events import Event

HERE, ONCE = "▸", "▹"
"""Before a node: the focused session leads through it as it stands; or did once, in another branch."""


class Look(Enum):
    """How a node or block looks: ``(glyph, word for the legend)``."""

    REUSED = ("=", "reused")
    NEW = ("+", "new")
    EVICTED = ("x", "evicted")
    LOCKED = ("#", "locked")
    IDLE = ("·", "idle")
    FREE = (".", "free")
    COPIED = ("~", "copied")
    PINNED = ("*", "pinned")
    LEFT = ("-", "left behind")

    @property
    def glyph(self) -> str:
        """One cell."""
        return self.value[0]

    @property
    def word(self) -> str:
        """The state in a word."""
        return self.value[1]

    @property
    def css(self) -> str:
        """The component class that holds the state's colour."""
        return f"kv--{self.name.lower()}"

    @property
    def variable(self) -> str:
        """The theme variable that holds the state's colour."""
        # What is left behind is as good as free.
        return "$kv-free" if self is Look.LEFT else f"$kv-{self.name.lower()}"


LOOK_CLASSES = {look.css for look in Look}
"""What a widget that draws states adds to its ``COMPONENT_CLASSES``."""

BLOCK_LOOKS = tuple(Look[state.name] for state in BlockState)
"""``BLOCK_LOOKS[state]`` for the values in ``Mirror.block_states()``."""


def node_look(node: Node) -> Look:
    """How a live node looks."""
    return BLOCK_LOOKS[node.state]


def look_css(widget: str) -> str:
    """The rules behind ``LOOK_CLASSES`` for the widget class named ``widget``."""
    return "\n".join(f"{widget} > .{look.css} {{ color: {look.variable}; }}" for look in Look)


_OTHER = ">"


def event_look(kind: type[Event]) -> tuple[Look | None, str]:
    """Return whose colour an event's sentence takes (None: no state's), and its glyph."""
    look = KINDS.get(kind, UNTOLD).look
    if look in Look.__members__:
        return Look[look], Look[look].glyph
    return None, look or _OTHER
