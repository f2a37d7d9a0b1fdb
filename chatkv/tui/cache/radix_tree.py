"""The tree of prefixes on the screen: moving in it, folding, and asking for what is under the cursor."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import BindingType

from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.messages import MapWanted, NodeSelected, PinWanted
from chatkv.tui.cache.tree_keys import node_of
from chatkv.tui.cache.tree_pane import TreePane
from chatkv.tui.keys.current import bind


class RadixTreeView(TreePane):
    """Arrows or hjkl move, left and right fold and unfold, enter or a click posts ``NodeSelected``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("move.up", "move(-1)"),
        bind("move.down", "move(1)"),
        bind("move.page_up", "move_pages(-1)"),
        bind("move.page_down", "move_pages(1)"),
        bind("move.first", "go(0)"),
        bind("move.last", "go(-1)"),
        bind("tree.fold", "fold"),
        bind("tree.unfold", "unfold"),
        bind("tree.fold_all", "fold_all(True)"),
        bind("tree.unfold_all", "fold_all(False)"),
        bind("pane.inspect", "select", "Inspect"),
        bind("pane.blocks", "blocks", "Blocks", tooltip="Its blocks in the map"),
        bind("tree.pin", "pin", "Pin"),
        bind("pane.sort", "sort", "Sort"),
        bind("pane.filter", "filter", "Filter"),
    ]

    @property
    def cursor(self) -> int:
        """The id of the node the cursor is on."""
        return node_of(self._cursor)

    def go_to(self, node: int) -> bool:
        """Put the cursor on ``node`` and bring it into view, whatever hides it; False where it is gone."""
        key = self._rows.find(node)
        if key is None and self._mirror is not None and node in self._mirror.nodes and self.clear_filter():
            key = self._rows.find(node)
        if key is None:
            return False
        self._change(lambda: self._rows.reveal(key))
        self._go_to_row(self._rows.index(key))
        return True

    def _go_to_row(self, index: int) -> None:
        self._fit()
        self._cursor_row = max(0, min(index, len(self._rows) - 1))
        self._cursor = self._rows.key_at(self._cursor_row)
        self._reveal(self._cursor)
        self.refresh()

    def action_move(self, rows: int) -> None:
        """Move by ``rows``."""
        self._go_to_row(self._rows.index(self._cursor) + rows)

    def action_move_pages(self, pages: int) -> None:
        """Move by ``pages`` less a row."""
        self.action_move(pages * max(1, self.scrollable_content_region.height - 1))

    def action_go(self, index: int) -> None:
        """Go to row ``index``; -1 is the last one."""
        self._go_to_row(index if index >= 0 else len(self._rows) - 1)

    def action_fold(self) -> None:
        """Fold the node, or go to its parent where there is nothing to fold."""
        if self._rows.fold(self._cursor):
            self._folded()
        elif (parent := self._rows.parent(self._cursor)) is not None:
            self._go_to_row(self._rows.index(parent))

    def action_unfold(self) -> None:
        """Unfold the node, or go to its first child."""
        if self._rows.unfold(self._cursor):
            self._folded()
        elif (kid := self._rows.first_kid(self._cursor)) is not None:
            self._go_to_row(self._rows.index(kid))

    def action_fold_all(self, folded: bool) -> None:
        """Fold all that is below the root's children, or nothing."""
        self._rows.fold_all(folded)
        self._folded()
        self._go_to_row(self._rows.index(self._cursor))

    def _folded(self) -> None:
        self._change(lambda: True)
        self._fit()
        self.refresh()

    def action_sort(self) -> None:
        """The next order: as they came, recency, size, hits."""
        self._change(self._picture.next_sort)
        self._fit()
        self._reveal(self._cursor)
        self._set_title()
        self.refresh()

    def action_select(self) -> None:
        """Ask for the node under the cursor."""
        if len(self._rows) > 1:
            self.post_message(NodeSelected(self.cursor))

    def action_blocks(self) -> None:
        """Ask for the blocks of the node under the cursor."""
        node = self._mirror.nodes.get(self._cursor) if self._mirror is not None else None
        if node is None or node.id == ROOT:
            self.notify("only a node that is in the tree has blocks", severity="warning")
        else:
            self.post_message(MapWanted(tuple(node.blocks.tolist()), f"node {node.id}"))

    def action_pin(self) -> None:
        """Ask that the node under the cursor, and with it those above it, be evicted last, or no longer."""
        node = self._mirror.nodes.get(self._cursor) if self._mirror is not None else None
        if node is None or node.id == ROOT:
            self.notify("only a node that is in the tree can be pinned", severity="warning")
        else:
            self.post_message(PinWanted(node.id, not node.pinned))

    def on_click(self, event: events.Click) -> None:
        """Ask for the node that was clicked."""
        offset = event.get_content_offset(self)
        if offset is None or len(self._rows) == 1:
            return
        index = offset.y + self.scroll_offset.y
        if index < len(self._rows):
            self._go_to_row(index)
            self.action_select()

    def on_mouse_scroll_up(self) -> None:
        """A person looks elsewhere."""
        self._held = True

    def on_mouse_scroll_down(self) -> None:
        """A person looks elsewhere."""
        self._held = True

    def on_blur(self) -> None:
        """Nobody moves in it any more: follow the session again."""
        self._held = False
        super().on_blur()
