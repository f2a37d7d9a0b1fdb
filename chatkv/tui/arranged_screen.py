"""Arranges the panes for the terminal's size: which are seen, which has the focus, zoom."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.binding import ActiveBinding, Binding
from textual.events import DescendantFocus, Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from chatkv.tui.cache_column import CacheColumn
from chatkv.tui.chat.pane import ChatPane
from chatkv.tui.chat.prompt import Prompt
from chatkv.tui.chip_row import Chip, ChipRow
from chatkv.tui.keys.current import NONE, changed_keys, hint, types
from chatkv.tui.layout import PANES, SMALLEST, Arrangement, arrangement
from chatkv.tui.sessions.panel import SessionPanel


class ArrangedScreen(Screen[None]):
    """Sets the classes that ``app.tcss`` arranges by. ``at`` is the pane a one-pane arrangement shows."""

    def __init__(self) -> None:
        super().__init__()
        self.arrangement = Arrangement.TWO
        self.at = "chat"
        self._zoomed = False
        self._focused_before: Widget | None = None
        """What had the focus when the terminal became too small for anything to have it."""

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """As Textual finds them. A key that a person has changed keeps its place in the footer, and is not
        offered where it types.
        """
        found = super().active_bindings
        if not changed_keys():
            return found
        typing = self.focused if isinstance(self.focused, Prompt) else None
        nodes = list(dict.fromkeys([*(each.node for each in found.values()), self]))

        def place(active: ActiveBinding) -> tuple[int, int]:
            id = active.binding.id
            for node in (self, active.node):
                ids = [each.id for each in node.BINDINGS if isinstance(each, Binding)]
                if id is not None and id in ids:
                    return nodes.index(node), ids.index(id)
            return nodes.index(active.node), 1000

        return {
            key: active
            for key, active in sorted(found.items(), key=lambda item: place(item[1]))
            if key != NONE
            and (typing is None or active.binding.priority or not types(key) or active.node is typing)
        }

    def changed(self) -> None:
        """What is on the screen has changed; the subclass draws."""

    @property
    def prompt(self) -> Prompt:
        """Where the person types."""
        return self.query_one(Prompt)

    @property
    def chat(self) -> ChatPane:
        """The conversation."""
        return self.query_one(ChatPane)

    @property
    def cache(self) -> CacheColumn:
        """Everything about the cache."""
        return self.query_one(CacheColumn)

    def on_resize(self, event: Resize) -> None:
        """Any size at any time."""
        self._arrange(event.size.width, event.size.height)

    def _arrange(self, width: int, height: int) -> None:
        was, self.arrangement = self.arrangement, arrangement(width, height)
        if self.arrangement is Arrangement.TINY and was is not Arrangement.TINY:
            self._focused_before = self.focused
        for other in Arrangement:
            self.set_class(other is self.arrangement, other.value)
        self.set_class(height < 30, "-low")
        self.set_class(height < 26, "-short")
        self.set_class(height < 18, "-shorter")
        need = "x".join(map(str, SMALLEST))
        self.query_one("#too-small", Static).update(
            f"Terminal too small: {width}x{height}.\nchatkv needs {need} or more.\n{hint('quit')} quits."
        )
        self._show_pane()
        if was is Arrangement.TINY and self.arrangement is not was:
            self.call_after_refresh(self._focus_again)

    def _focus_again(self) -> None:
        if self.focused is None and self._focused_before is not None and self._focused_before.focusable:
            self._focused_before.focus()

    @property
    def one_pane(self) -> bool:
        """True where a single pane fills the body."""
        return self._zoomed or self.arrangement is Arrangement.ONE

    def _show_pane(self) -> None:
        self.set_class(self.one_pane, "-single")
        for pane in PANES:
            self.set_class(self.one_pane and pane == self.at, f"-at-{pane}")
        self.query_one("#tabs", ChipRow).show(
            [Chip(pane, title, pane == self.at) for pane, title in PANES.items()]
        )
        self.changed()

    def go_to(self, pane: str) -> None:
        """Show ``pane`` (in one-pane arrangements) and focus it; with the chat, the prompt is focused."""
        self.at = pane
        self._show_pane()
        widget = self.prompt if pane == "chat" else self.query_one(f"#{pane}")
        if widget.can_focus:
            # Not before the styles that show it have been applied: what is hidden can't be focused.
            self.call_after_refresh(widget.focus)
        else:
            self.set_focus(None)

    def _stops(self) -> list[Widget]:
        """What the pane keys walk through: the panes on the screen, and the prompt."""
        view = self.chat.view
        candidates: Iterable[Widget | None] = (
            self.prompt,
            self.query_one(SessionPanel),
            view,
            *(self.query_one(f"#{pane}") for pane in PANES if pane != "chat"),
        )
        return [w for w in candidates if w is not None and w.focusable and w.region.area > 0]

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Zoom follows the focus."""
        if not self.one_pane:
            pane = next((w.id for w in event.widget.ancestors_with_self if w.id in PANES), None)
            if pane is not None:
                self.at = pane

    def action_pane(self, by: int) -> None:
        """To the next or previous pane."""
        if self.one_pane:
            panes = list(PANES)
            self.go_to(panes[(panes.index(self.at) + by) % len(panes)])
            return
        stops = self._stops()
        at = stops.index(self.focused) if self.focused in stops else -1 if by > 0 else 0
        stops[(at + by) % len(stops)].focus()

    def action_zoom(self) -> None:
        """The focused pane fills the body, or goes back to its place."""
        self._zoomed = not self._zoomed
        self._show_pane()

    def unzoom(self) -> None:
        """Every pane back in its place."""
        self._zoomed = False
        self._show_pane()

    def action_prompt(self) -> None:
        """Back to typing."""
        if self.one_pane:
            self._zoomed = False
            self.go_to("chat")
        self.prompt.focus()

    @on(ChipRow.Picked, "#tabs")
    def _tab(self, event: ChipRow.Picked) -> None:
        event.stop()
        self.go_to(event.key)
