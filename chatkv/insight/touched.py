"""Which nodes and blocks a record speaks of, so that a screen can point to them."""

from __future__ import annotations

from typing import NamedTuple

from chatkv.kvcache import events as kv
from chatkv.kvcache.events import ROOT
from chatkv.scheduler.events import PinRefused


class Touched(NamedTuple):
    """Ids; empty where the record is about neither."""

    nodes: tuple[int, ...] = ()
    blocks: tuple[int, ...] = ()
    request: int | None = None
    """Whose doing it was. Where there are no nodes, those of its row are what it is about."""


def touched(event: kv.Event) -> Touched:
    """What ``event`` is about; the first node is the one it is most about."""
    return _things(event)._replace(request=getattr(event, "request", None))


def _things(event: kv.Event) -> Touched:
    match event:
        case kv.PrefixReused():
            return Touched(event.path[::-1], tuple(event.blocks.tolist()))
        case kv.SlotsCopied():
            return Touched(() if event.node is None else (event.node,), (event.source, event.target))
        case kv.NodeSplit():
            return Touched((event.upper, event.node))
        case kv.ChildrenMoved():
            return Touched((event.heir, event.node))
        case kv.RowRepointed():
            return Touched((), tuple(event.new.tolist()))
        case kv.NodeStored() | kv.NodeExtended() | kv.NodeEvicted() | kv.NodeTrimmed():
            return Touched((event.node,), tuple(event.blocks.tolist()))
        case kv.BlocksAllocated() | kv.BlocksFreed():
            return Touched((), tuple(event.blocks.tolist()))
        case kv.PathLocked() | kv.PathUnlocked() | kv.PathUsed() | kv.NodePinned() | PinRefused():
            return Touched((event.node,) if event.node != ROOT else ())
    return Touched()
