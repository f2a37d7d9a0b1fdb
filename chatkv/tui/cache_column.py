"""Everything about the cache, as one column: tree over paging over figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Region, Size

from chatkv.engine.messages import Ready
from chatkv.insight.mirror import Mirror
from chatkv.insight.patrol import Patrol
from chatkv.kvcache.events import Event
from chatkv.text import one_line
from chatkv.tui.cache.block_map import BlockMapView
from chatkv.tui.cache.block_table import BlockTableView
from chatkv.tui.cache.boxed import Boxed
from chatkv.tui.cache.events_view import EventsView
from chatkv.tui.cache.inspector import Inspector
from chatkv.tui.cache.labels import Decode
from chatkv.tui.cache.messages import BlockSelected, EventSelected, NodeSelected
from chatkv.tui.cache.metrics import MetricsView
from chatkv.tui.cache.queue_view import QueueView
from chatkv.tui.cache.tree.pane import RadixTreeView
from chatkv.tui.chip_row import Chip, ChipRow, row_width
from chatkv.tui.feed import Feed
from chatkv.tui.keys.current import bind
from chatkv.tui.layout import PANES
from chatkv.tui.pane_area import PaneArea, Planner

CHECK_S = 1.0
"""How often the mirror's invariants are looked at, in part or whole."""

_SHARED = ("middle", "lower")
"""Places that may have several panes; each has tabs on its border."""
_TITLE = 14
"""Cells of a title that tabs leave free."""
_EDGES = 6
"""Cells of a border's line that are no title: at each end a corner, a dash and a blank."""


def cache_kind(mirror: Mirror) -> str:
    """``radix · lru by node · exact to the token``: what changes hit rates, so what a picture has to name."""
    if not mirror.cache:
        return ""
    if mirror.cache == "none":
        return "none · nothing is reused"
    eviction = f"{mirror.eviction} by {mirror.grain}" if mirror.cache == "radix" else mirror.eviction
    return f"{mirror.cache} · {eviction} · {'whole blocks only' if mirror.strict else 'exact to the token'}"


class CacheColumn(PaneArea):
    """Passes the picture on to the panes; which of them are seen, and where, is the screen's plan."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("pane.next_tab", "screen.tab(1)", "Tab"),
        bind("pane.previous_tab", "screen.tab(-1)"),
    ]

    def __init__(self, *, planner: Planner, id: str | None = None) -> None:
        super().__init__(planner=planner, id=id)
        self.tree_view = RadixTreeView(id="tree", classes="pane")
        self.blocks = BlockMapView(id="blocks", classes="pane")
        self.table = BlockTableView(id="table", classes="pane")
        self.node = Inspector(id="node", classes="pane")
        self.metrics = MetricsView(id="metrics", classes="pane")
        self.queue = QueueView(id="queue", classes="pane")
        self.log_view = EventsView(id="events", classes="pane")
        self._tabs = {place: ChipRow(id=f"tabs-{place}", classes="place-tabs") for place in _SHARED}
        self._boxed: tuple[Boxed, ...] = (self.blocks, self.table, self.node, self.queue)
        self._mirror: Mirror | None = None
        """What is shown."""
        self._patrol = Patrol()

    def compose(self) -> ComposeResult:
        """Its parts."""
        yield self.tree_view
        yield self.table
        yield self.blocks
        yield self.node
        yield self.metrics
        yield self.queue
        yield self.log_view
        yield from self._tabs.values()

    def place(self, size: Size) -> Mapping[str, Region]:
        """The panes; and their tabs, at the right end of the upper border, where a place has several."""
        regions = dict(super().place(size))
        for place, panes in self.plan.stacks.items():
            box = next(regions[pane] for pane in panes if pane in regions)
            tabs = self._tabs_width(place, panes, box)
            if tabs:
                regions[f"tabs-{place}"] = Region(box.right - tabs - 2, box.y, tabs, 1)
            for view in self._boxed:
                if view.id in panes:
                    view.leave_room(box.width - _EDGES - tabs)
        return regions

    def _chips(self, panes: tuple[str, ...]) -> list[Chip]:
        return [Chip(pane, PANES[pane], pane in self.plan.regions) for pane in panes]

    def _tabs_width(self, place: str, panes: tuple[str, ...], box: Region) -> int:
        """Cells of the tabs on the border of ``box``; 0: there are none."""
        if len(panes) < 2 or place not in self._tabs:
            return 0
        return max(0, min(row_width(self._chips(panes)), box.width - _TITLE))

    @on(PaneArea.Rearranged)
    def _name_tabs(self) -> None:
        for place, panes in self.plan.stacks.items():
            if place in self._tabs:
                self._tabs[place].show(self._chips(panes))

    def on_mount(self) -> None:
        """See now and then whether the picture is right."""
        self.set_interval(CHECK_S, self.check)

    def name_sessions(self, name: Callable[[str], str]) -> None:
        """``name``: the key the engine knows a session by → what people call it."""
        for pane in (self.node, self.queue, self.tree_view, self.log_view):
            pane.session_name = lambda key: one_line(name(key), 40)

    def engine_ready(self, ready: Ready, decode: Decode) -> None:
        """Tokens can be read as text from now on."""
        self.tree_view.decode = decode
        self.node.decode = decode
        self.metrics.set_policy(ready.policy)
        self.queue.set_policy(ready.policy)

    def show(self, feed: Feed, session: str, recent: Iterable[Event] = ()) -> None:
        """Draw the feed's mirror and what is new in its log; what belongs to ``session`` stands out."""
        mirror = self._mirror = feed.mirror
        for notice in feed.take_notices():
            self.notify(one_line(notice, 400), severity="warning", markup=False, timeout=8)
        self.log_view.add(recent)
        self.tree_view.fade(feed.faint)
        for pane in (
            self.tree_view,
            self.blocks,
            self.table,
            self.node,
            self.metrics,
            self.queue,
            self.log_view,
        ):
            pane.show(mirror, session)
        self._say_kind(mirror)
        self.metrics.set_engine(feed.stats, feed.evictions_a_minute, feed.eviction_bars)

    def check(self) -> None:
        """See whether all that must hold of the picture does; the light in the figures says so."""
        if self._mirror is None or not self._mirror.cache:
            return
        before = self._patrol.problems
        if self._patrol.step(self._mirror):
            found = self._patrol.problems
            self.metrics.set_problems(found, self._patrol.ended)
            if found and not before:
                # The figures may be out of sight.
                self.notify(
                    f"the picture of the cache is wrong: {one_line(found[0], 300)}",
                    severity="error",
                    markup=False,
                    timeout=20,
                )

    def _say_kind(self, mirror: Mirror) -> None:
        kind = cache_kind(mirror)
        if kind != self.tree_view.border_subtitle:
            self.tree_view.border_subtitle = kind

    def inspect(self, wanted: NodeSelected | BlockSelected) -> None:
        """Show it in full, and point to it in the other panes: a node's blocks, a block's node."""
        mirror = self._mirror
        if isinstance(wanted, NodeSelected):
            self.node.inspect_node(wanted.node)
            node = mirror.nodes.get(wanted.node) if mirror else None
            self.blocks.light(node.blocks.tolist() if node else ())
        else:
            self.node.inspect_block(wanted.block)
            owner = self.owner(wanted.block)
            self.tree_view.light(() if owner is None else (owner,))
            if owner is not None:
                self.tree_view.go_to(owner)

    def owner(self, block: int) -> int | None:
        """The node of the picture that holds ``block``; None where it is free or private."""
        there = self._mirror is not None and 0 <= block < self._mirror.num_blocks
        return self._mirror.block_node(block) if self._mirror is not None and there else None

    @on(EventSelected)
    def _point(self, event: EventSelected) -> None:
        """Light up what an event is about, in the tree and in the map."""
        event.stop()
        about = event.about
        nodes, blocks = about.nodes, about.blocks
        if not nodes and not blocks and about.request is not None:
            blocks = tuple(self._row_of(about.request))
        if not nodes:
            nodes = tuple(dict.fromkeys(n for block in blocks[::-1] if (n := self.owner(block)) is not None))
        self.tree_view.light(nodes)
        self.blocks.light(blocks)
        gone = not any(self.tree_view.go_to(node) for node in nodes)
        if gone and not blocks:
            if about.nodes:
                self.notify("none of its nodes is in the tree any more")
            else:
                self.notify("it has no nodes" if about.request is None else "its request has no blocks now")

    def _row_of(self, request: int) -> list[int]:
        """The blocks of ``request``, also when it is over: as long as they hold what it left there."""
        if self._mirror is None:
            return []
        view = self._mirror.requests.get(request)
        row = self._mirror.rows.get(request) or (
            None if view is None else self._mirror.closed_row(view.session)
        )
        return row.blocks if row is not None and row.request == request else []
