"""The tree of prefixes on the screen: its rows, moving in it, asking for what is under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer

from chatkv.insight.mirror import Mirror
from chatkv.insight.visible import counted
from chatkv.kvcache.events import ROOT
from chatkv.tui.cache.cells import steady
from chatkv.tui.cache.labels import Decode, Labels
from chatkv.tui.cache.messages import MapWanted, NodeSelected, PinWanted
from chatkv.tui.cache.states import LOOK_CLASSES, look_css
from chatkv.tui.cache.tree.line import TREE_CLASSES, Line, describe, draw, plain
from chatkv.tui.cache.tree.picture import SORTS, TreePicture
from chatkv.tui.cache.tree.rows import Row, TreeRows
from chatkv.tui.cache.tree.shape import node_of
from chatkv.tui.cache.typed_filter import TypedFilter
from chatkv.tui.cheap_layout import set_extent
from chatkv.tui.frame_titles import title_frame
from chatkv.tui.kept_styles import KeptStyles
from chatkv.tui.keys.current import bind

_SEARCH_S = 0.025


class RadixTreeView(TypedFilter, ScrollView, KeptStyles, can_focus=True):
    """``▸├─= sys prompt   128t r3 b8``: state, text, tokens, locks (r) and blocks (b) of each node.

    ``▸`` and bold: the focused session leads through it as it stands. ``▹``: another branch of it does.
    While nobody moves in it, it keeps the focused session's newest node in view. Arrows or hjkl move, left
    and right fold and unfold, enter or a click posts ``NodeSelected``.
    """

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

    DEFAULT_CSS = f"""
    RadixTreeView {{
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
    }}
    RadixTreeView > .tree--guide {{ color: $kv-free; }}
    RadixTreeView > .tree--stats {{ color: $kv-idle; }}
    RadixTreeView > .tree--path {{ text-style: bold; }}
    RadixTreeView > .tree--cursor {{ text-style: reverse; }}
    RadixTreeView > .tree--lit {{ text-style: bold underline; }}
    {look_css("RadixTreeView")}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = LOOK_CLASSES | TREE_CLASSES

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.border_title = "Radix tree"
        self._mirror: Mirror | None = None
        self._session: str | None = None
        self._seen = (-1, -1, -1)
        """``seq``, ``epoch`` and ``structure_version`` of what was shown last."""
        self._labels = Labels()
        self._picture = TreePicture(self._labels)
        self._cursor = ROOT
        """A row's key, so that it stays on its node while rows come and go."""
        self._cursor_row = 0
        """Where it was when the rows were last fitted to the screen."""
        self._fitted = True
        """The screen and the rows agree on how many there are, and where the cursor is."""
        self._held = False
        """A person scrolled away: don't follow the session."""
        self._newest: int | None = None
        self._window: tuple[int, list[Row]] | None = None
        """The rows on the screen and the first one's index; None when they may have changed."""
        self._strips: LRUCache[tuple[Line, int, Style], Strip] = LRUCache(2048)
        self._drawn: dict[int, Line | str] = {}
        """What each line of the screen was drawn from last."""
        self._drawn_at = (0, 0)
        """The first row and the width that it was drawn for."""
        self._faint: frozenset[int] = frozenset()
        self._lit: frozenset[int] = frozenset()
        self._numbers: Mapping[str, int] = {}
        self._title = ""
        self._searching: Timer | None = None

    @property
    def session_name(self) -> Callable[[str], str]:
        """A session's key → what people call it."""
        return self._picture.names

    @session_name.setter
    def session_name(self, name: Callable[[str], str]) -> None:
        self._picture.names = name

    def number_sessions(self, numbers: Mapping[str, int]) -> None:
        """Session's key → its number in lists, from now on."""
        if numbers != self._numbers:
            self._numbers = dict(numbers)
            self._redraw()

    # -- what it shows -----------------------------------------------------------------------

    @property
    def decode(self) -> Decode | None:
        """Token ids → text, for the labels; None shows the ids."""
        return self._labels.decode

    @decode.setter
    def decode(self, decode: Decode | None) -> None:
        self._labels.decode = decode
        self.refresh()

    def fade(self, faint: frozenset[int]) -> None:
        """Draw these of ``Mirror.ghosts`` (by key) faint: they are soon to go."""
        if faint != self._faint:
            self._faint = faint
            self.refresh()

    def light(self, nodes: Iterable[int]) -> None:
        """Let these nodes stand out, and no others."""
        lit = frozenset(nodes)
        if lit != self._lit:
            self._lit = lit
            self.refresh()

    def show(self, mirror: Mirror, focus_session: str | None) -> None:
        """Draw this state; the path of ``focus_session`` stands out."""
        seen = (mirror.seq, mirror.epoch, mirror.structure_version)
        if mirror is self._mirror and seen == self._seen and focus_session == self._session:
            return
        if focus_session != self._session:
            self._held, self._newest = False, None
        self._mirror, self._session, self._seen = mirror, focus_session, seen
        self._change(lambda: self._picture.follow(mirror))
        self._fit()
        self._follow_session(mirror)
        self._set_title()
        self._redraw()

    def _set_title(self) -> None:
        if self._mirror is None:
            return
        nodes = len(self._mirror.nodes) - 1
        title = f"Radix tree · {counted(nodes, 'node')}"
        if self._mirror.cache == "hash":
            title = f"Tree of blocks · {counted(nodes, 'block')}"
        if self._picture.sort != SORTS[0]:
            title += f" · by {self._picture.sort}"
        if (found := self._picture.filter) is not None:
            title += f" · {len(found.tree.found):,} found" + (
                f", {found.pending:,} to go" if found.pending else ""
            )
        title += f" · {steady(self.filter_words)}" if self.filter_words else ""
        if title != self._title:
            self._title = title
            title_frame(self, Content(title))

    @property
    def _rows(self) -> TreeRows:
        """Those of now: the mirror may have gone on since it was shown."""
        if self._picture.late:
            self._change(self._picture.follow)
        return self._picture.rows

    def _change(self, change: Callable[[], object]) -> None:
        """Carry out a change of the rows (False: there was none), and keep the cursor on its node."""
        if change() is False:
            return
        rows = self._picture.rows
        found = rows.find(self._cursor)
        self._cursor = rows.key_at(min(self._cursor_row, len(rows) - 1)) if found is None else found
        self._window, self._fitted = None, False

    def _fit(self) -> None:
        """Let the screen know of changed rows; the cursor stays on its line."""
        rows = self._rows
        if self._fitted:
            return
        self._fitted = True
        self._set_extent()
        before, self._cursor_row = self._cursor_row, rows.index(self._cursor)
        moved = self._cursor_row - before
        if moved and self.has_focus:
            self.scroll_to(y=self.scroll_offset.y + moved, animate=False, force=True)

    # -- filter and order --------------------------------------------------------------------

    def filter_changed(self) -> None:
        """Show what the text finds; a large tree is looked through in the next moments."""
        self._change(lambda: self._picture.find(self.filter_text))
        self._fit()
        if self._searching is None and self._picture.filter is not None and self._picture.filter.pending:
            self._searching = self.set_interval(_SEARCH_S, self._search_on)
        self._set_title()
        self.refresh()

    def _search_on(self) -> None:
        if self._rows and self._picture.search():
            self._change(lambda: True)
            self._fit()
            self.refresh()
        if (self._picture.filter is None or not self._picture.filter.pending) and self._searching is not None:
            self._searching.stop()
            self._searching = None
        self._set_title()

    def _follow_session(self, mirror: Mirror) -> None:
        """Keep the session's newest node in view, unless a person looks around."""
        if self.has_focus or self._held or self._session is None:
            return
        newest = mirror.tip_of(self._session)
        if newest is not None and newest != self._newest and newest in self._rows:
            self._newest = newest
            self._reveal(newest)

    def _set_extent(self) -> None:
        self._window = None
        set_extent(self, Size(self.scrollable_content_region.width, len(self._rows)), redraw=False)

    def _reveal(self, key: int) -> None:
        self.scroll_to_region(Region(0, self._rows.index(key), 1, 1), animate=False, force=True)

    # -- drawing -----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """One row, from the ones that were drawn before where nothing in it changed."""
        width, base = self.scrollable_content_region.width, self.style_of()
        if (self.scroll_offset.y, width) != self._drawn_at:
            self._drawn_at = self.scroll_offset.y, width
            self._drawn.clear()
        line = self._drawn[y] = self._line(y)
        if isinstance(line, str):
            return plain(line, width, base)
        key = (line, width, base)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = draw(line, width, self._partial, base)
        return strip

    def _line(self, y: int) -> Line | str:
        """What line ``y`` of the screen shows: a row of the tree, or words of our own."""
        mirror, rows_now = self._mirror, self._rows
        if mirror is None or len(rows_now) == 1:
            return self._nothing(mirror) if y == 0 else ""
        top = self.scroll_offset.y
        if self._window is None or self._window[0] != top or len(self._window[1]) <= y:
            self._window = (top, list(rows_now.rows(top, top + max(self.size.height, y + 1))))
        rows = self._window[1]
        if y >= len(rows):
            return ""
        here = self.has_focus and rows[y].key == self._cursor
        line = describe(
            rows[y],
            mirror,
            self._labels,
            self._session,
            here,
            self._faint,
            self.session_name,
            self._lit,
            self._numbers,
        )
        return "" if line is None else line

    def _redraw(self) -> None:
        """Draw the lines anew that show something else."""
        width = self.scrollable_content_region.width
        if (self.scroll_offset.y, width) != self._drawn_at:
            self.refresh()
            return
        for y, before in self._drawn.items():
            if self._line(y) != before:
                self.refresh(Region(0, y, width, 1))

    def _nothing(self, mirror: Mirror | None) -> str:
        if self._picture.filter is not None and mirror is not None and len(mirror.nodes) > 1:
            return "no node has these words in its text, its sessions or its state · esc shows all"
        if mirror is not None and mirror.cache == "none":
            return "the cache is off: nothing is kept between answers"
        return "nothing cached yet: send a message"

    def _partial(self, component: str) -> Style:
        return self.style_of(component, partial=True)

    def notify_style_update(self) -> None:
        """Colours may have changed: draw anew."""
        self._strips.clear()
        super().notify_style_update()

    def on_resize(self) -> None:
        """Fit the new size."""
        self._set_extent()

    # -- moving ------------------------------------------------------------------------------

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
