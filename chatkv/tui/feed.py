"""The picture's source: the engine's events folded into a mirror, live or held still."""

from __future__ import annotations

from collections.abc import Sequence

from chatkv.insight.mirror import Mirror
from chatkv.kvcache import events as kv
from chatkv.kvcache.events import Event

KEPT_RECENT = 2_000


class Feed:
    """Owns the mirror. While frozen, events are kept and the mirror stays as it is; nothing is lost."""

    def __init__(self) -> None:
        self.mirror = Mirror()
        self.dirty = True
        """The mirror changed since the last frame; whoever draws resets it."""
        self._recent: list[Event] = []
        self._frozen = False
        self._held: list[tuple[tuple[Event, ...], float]] = []
        self._nodes: dict[int, int] = {}
        self._ends: dict[str, int] = {}
        self._latest = 0

    @property
    def frozen(self) -> bool:
        """True while the picture is held still."""
        return self._frozen

    @property
    def latest(self) -> int:
        """``seq`` of the newest event, folded or held."""
        return self._latest

    def take(self, events: Sequence[Event], wall: float) -> None:
        """Events of one batch, in order."""
        if not events:
            return
        self._latest = events[-1].seq
        if self._frozen:
            self.dirty = True
            self._held.append((tuple(events), wall))
        else:
            self._fold(events, wall)

    def freeze(self, frozen: bool) -> None:
        """Hold the picture still, or let it catch up."""
        self._frozen = frozen
        self.dirty = True
        if not frozen:
            held, self._held = self._held, []
            for events, wall in held:
                self._fold(events, wall)

    def take_recent(self) -> list[Event]:
        """The events folded since the last call (the newest ``KEPT_RECENT``)."""
        recent, self._recent = self._recent, []
        return recent

    def cached_tokens(self, session: str) -> int | None:
        """How many tokens of what ``session`` last computed are still in the tree; None if it ran nothing.

        A fork at its head reuses these.
        """
        node = self._ends.get(session)
        if node is None:
            return None
        nodes = self.mirror.nodes
        # Leaves go first, so the tokens still there are those above the deepest node left.
        ghost = self.mirror.ghosts.get(node)
        path = (
            self.mirror.path(node)
            if node in nodes
            else [n for n in (ghost.path if ghost else ()) if n in nodes]
        )
        return sum(len(nodes[n].tokens) for n in path)

    def _fold(self, events: Sequence[Event], wall: float) -> None:
        self.mirror.apply_all(events, wall)
        for event in events:
            self._follow(event)
        self._recent.extend(events)
        del self._recent[:-KEPT_RECENT]
        self.dirty = True

    def _follow(self, event: Event) -> None:
        """Remember the deepest node of each request, and of each session's last one."""
        if isinstance(event, kv.RequestOpened):
            self._ends.pop(event.session, None)
            self._nodes[event.request] = kv.ROOT
        elif isinstance(event, kv.PrefixReused) and event.path:
            self._nodes[event.request] = event.path[-1]
        elif isinstance(event, kv.NodeStored | kv.NodeExtended | kv.PathLocked) and event.request is not None:
            self._nodes[event.request] = event.node
        elif isinstance(event, kv.CacheCleared | kv.CacheCreated):
            self._nodes.clear()
            self._ends.clear()
        elif isinstance(event, kv.RequestClosed):
            node = self._nodes.pop(event.request, kv.ROOT)
            view = self.mirror.requests.get(event.request)
            if view is not None and node != kv.ROOT:
                self._ends[view.session] = node
