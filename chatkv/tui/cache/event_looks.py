"""How a kind of event looks where it is told in words: the same in the log and in the caption."""

from __future__ import annotations

from chatkv.kvcache import events as kv
from chatkv.tui.cache.states import Look

_LOOKS: dict[type[kv.Event], Look] = {
    kv.NodeStored: Look.NEW,
    kv.NodeExtended: Look.NEW,
    kv.PrefixReused: Look.REUSED,
    kv.NodeEvicted: Look.EVICTED,
    kv.NodeTrimmed: Look.EVICTED,
    kv.CacheCleared: Look.EVICTED,
    kv.PathLocked: Look.LOCKED,
    kv.PathUnlocked: Look.IDLE,
    kv.SlotsCopied: Look.COPIED,
    kv.NodePinned: Look.PINNED,
    kv.BlocksFreed: Look.FREE,
}
_SPLIT, _OTHER = "/", ">"


def event_look(kind: type[kv.Event]) -> tuple[Look | None, str]:
    """Whose colour it takes (None: no state's), and its glyph."""
    look = _LOOKS.get(kind)
    return look, look.glyph if look else _SPLIT if issubclass(kind, kv.NodeSplit) else _OTHER
