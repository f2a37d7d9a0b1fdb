"""Arranges the panes for the terminal's size: which are seen, which has the focus, zoom, hiding, tabs."""

from __future__ import annotations

from functools import cached_property

from textual import on
from textual.events import Resize
from textual.geometry import Size
from textual.timer import Timer
from textual.widget import Widget

from chatkv.tui import panes_kept
from chatkv.tui.cache_column import CacheColumn
from chatkv.tui.chat.pane import ChatPane
from chatkv.tui.chat.prompt import Prompt
from chatkv.tui.chip_row import Chip, ChipRow
from chatkv.tui.dialogs.panes import PaneList, PaneRow
from chatkv.tui.keyed_screen import KeyedScreen
from chatkv.tui.layout import BODY, CACHE_PANES, COLUMN, PANES, Arrangement, arrangement
from chatkv.tui.pane_area import PaneArea
from chatkv.tui.panes_kept import Kept
from chatkv.tui.remembered import Remembered
from chatkv.tui.split import Plan, Stack, arranged

SAVE_S = 0.5
"""What a person does to the panes is written once they have rested that long."""


class ArrangedScreen(KeyedScreen):
    """Knows the plan of the panes and has it carried out. ``at`` is the pane that keys act on."""

    AUTO_FOCUS = "Prompt"

    def __init__(self, remembered: Remembered) -> None:
        super().__init__()
        self.remembered = remembered
        self.arrangement = Arrangement.TWO
        self._at = "chat"
        self._kept: dict[Arrangement, Kept] = {}
        self._saving: Timer | None = None
        self._inspected_over = ""
        """The pane that was in front of the inspector before something was inspected."""
        self._focused_before: Widget | None = None
        """What had the focus when the terminal became too small for anything to have it."""

    def changed(self) -> None:
        """What is on the screen has changed; the subclass draws."""

    # Looked for once: each is there as long as the screen is.

    @cached_property
    def prompt(self) -> Prompt:
        """Where the person types."""
        return self.query_one(Prompt)

    @cached_property
    def chat(self) -> ChatPane:
        """The conversation."""
        return self.query_one(ChatPane)

    @cached_property
    def cache(self) -> CacheColumn:
        """Everything about the cache."""
        return self.query_one(CacheColumn)

    @cached_property
    def body(self) -> PaneArea:
        """The columns: sessions, chat, cache."""
        return self.query_one("#body", PaneArea)

    # -- the plan ----------------------------------------------------------------------------

    @property
    def kept(self) -> Kept:
        """How the person has set up this arrangement."""
        if self.arrangement not in self._kept:
            self._kept[self.arrangement] = panes_kept.load(self.remembered, self.arrangement)
        return self._kept[self.arrangement]

    @property
    def one_pane(self) -> bool:
        """True where a single pane fills the body."""
        return self.arrangement is Arrangement.ONE or bool(self.kept.zoomed)

    @property
    def at(self) -> str:
        """The pane that keys act on; where there is room for only one, that one."""
        return self.kept.zoomed or self._at

    @property
    def shown(self) -> list[str]:
        """The panes that are not hidden, in the order of f6 where one fills the screen."""
        return [pane for pane in PANES if pane not in self.kept.hidden]

    @property
    def seen(self) -> list[str]:
        """The panes on the screen, in the order they are read; after a change, those of the next frame."""
        if self.arrangement is Arrangement.TINY:
            return []
        columns, column = self._plans()
        return [pane for pane in columns.regions if pane != "cache"] + list(column.regions)

    def _plans(self) -> tuple[Plan, Plan]:
        """The columns, and the panes of the cache, as they are to be: a key may be faster than a frame."""
        columns = self.plan_body(self.body.content_size)
        place = columns.regions.get("cache")
        return columns, Plan() if place is None else self.plan_cache(place.size)

    def stack_of(self, pane: str) -> tuple[str, ...]:
        """The panes of the cache that share its place, itself among them; nothing where it has none."""
        return self._plans()[1].stack_of(pane)

    def on_unmount(self) -> None:
        """What was just set up is kept."""
        if self._saving is not None:
            self._save()

    def plan_body(self, size: Size) -> Plan:
        """The columns in an area of ``size``."""
        if self.one_pane:
            column = "cache" if self.at in CACHE_PANES else self.at
            return arranged([Stack("one", (column,))], size, (), {}, self.kept.front)
        hidden = set(self.kept.hidden)
        if hidden.issuperset(CACHE_PANES):
            hidden.add("cache")
        return arranged([BODY[self.arrangement]], size, hidden, self.kept.weights, self.kept.front)

    def plan_cache(self, size: Size) -> Plan:
        """The panes of the cache in a column of ``size``."""
        if self.one_pane:
            return arranged([Stack("one", (self.at,))], size, (), {}, self.kept.front)
        places = COLUMN.get(self.arrangement, ())
        return arranged(places, size, self.kept.hidden, self.kept.weights, self.kept.front)

    def on_resize(self, event: Resize) -> None:
        """Any size at any time."""
        width, height = event.size
        was, self.arrangement = self.arrangement, arrangement(width, height)
        if self.arrangement is Arrangement.TINY and was is not Arrangement.TINY:
            self._focused_before = self.focused
        for other in Arrangement:
            self.set_class(other is self.arrangement, other.value)
        self.set_class(height < 30, "-low")
        self.set_class(height < 18, "-shorter")
        if self.arrangement is Arrangement.ONE and was is not Arrangement.ONE and self.focused is self.prompt:
            self._at = "chat"
        self.rearrange()
        if was is Arrangement.TINY and self.arrangement is not was:
            self.call_after_refresh(self._focus_again)

    def _focus_again(self) -> None:
        before, self._focused_before = self._focused_before, None
        # Textual has found another one meanwhile; no person has.
        if before is not None and before.focusable:
            self.set_focus(before)
        self._keep_focus()

    def rearrange(self) -> None:
        """Something that the plan goes by has changed."""
        if self.at not in self.shown:
            self._at = "chat" if "chat" in self.shown else self.shown[0]
        self.set_class(self.one_pane, "-single")
        self.set_class(self.one_pane and self.at == "chat", "-at-chat")
        self.set_class("sessions" in self.shown and not self.one_pane, "-listed")
        self.query_one("#tabs", ChipRow).show(
            [Chip(pane, PANES[pane], pane == self.at) for pane in self.shown]
        )
        self.body.again()
        self.cache.again()
        self.changed()
        self.refresh_bindings()

    def set_up(self) -> None:
        """The person has set up the panes in another way: show it, and keep it for the next time."""
        self.rearrange()
        # At once: a key that comes before the next frame is for what takes the place of what goes.
        self._keep_focus()
        if self._saving is None:
            self._saving = self.set_timer(SAVE_S, self._save)

    def _save(self) -> None:
        if self._saving is not None:
            self._saving.stop()
            self._saving = None
        for which, kept in self._kept.items():
            if which is not Arrangement.TINY:
                panes_kept.save(self.remembered, which, kept)

    # -- focus -------------------------------------------------------------------------------

    def pane_of(self, widget: Widget | None) -> str:
        """The pane that ``widget`` is in, or nothing."""
        if widget is None:
            return ""
        return next((str(w.id) for w in widget.ancestors_with_self if w.id in PANES), "")

    def _target(self, pane: str) -> Widget:
        if pane == "chat":
            return self.chat.view or self.prompt
        return self.query_one(f"#{pane}")

    def go_to(self, pane: str) -> None:
        """Show ``pane`` and focus it; where it is alone on the screen the chat's prompt is focused for it."""
        self._bring_up(pane)
        self.set_focus(self.prompt if pane == "chat" else self._target(pane))

    def focus_in(self, pane: str) -> None:
        """Focus one that is seen."""
        self.set_focus(self._target(pane))

    def _bring_up(self, pane: str) -> None:
        kept = self.kept
        kept.hidden.discard(pane)
        if self.arrangement is not Arrangement.ONE:
            kept.bring_up(pane)
        if kept.zoomed:
            kept.zoomed = pane
        self._at = pane
        self.set_up()

    @on(PaneArea.Rearranged)
    def _mind_focus(self) -> None:
        # Textual takes the focus from what is hidden, but not before all of this has been drawn.
        self.call_after_refresh(self._keep_focus)
        # What is cut to the room that panes have may have been drawn before they had it.
        self.changed()

    def _keep_focus(self) -> None:
        """The focus is never on what can't be seen, nor lost."""
        if self.focused is self.prompt or self._focused_before is not None:
            return
        seen = self.seen
        pane = self.pane_of(self.focused) or self.at
        if self.focused is not None and pane in seen:
            return
        if pane not in seen:
            nearest = (*self.stack_of(pane), self.at)
            pane = next((other for other in nearest if other in seen), "")
        typing = not pane or (pane == "chat" and self.one_pane)
        self.set_focus(self.prompt if typing else self._target(pane))

    def set_focus(
        self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False
    ) -> None:
        """See the base class. What has the focus is what keys act on, from now on."""
        super().set_focus(widget, scroll_visible, from_app_focus)
        if not self.one_pane and (pane := self.pane_of(self.focused)):
            self._at = pane

    def action_pane(self, by: int) -> None:
        """To the next or previous pane, in the order they are seen; the prompt is one of them."""
        if self.one_pane:
            panes = self.shown
            self.go_to(panes[(panes.index(self.at) + by) % len(panes)])
            return
        stops = [self.prompt, *(target for pane in self.seen if (target := self._target(pane)).focusable)]
        pane = self.pane_of(self.focused)
        here = self._target(pane) if pane else self.prompt
        at = stops.index(here) if here in stops else 0
        self.set_focus(stops[(at + by) % len(stops)])

    def focus_next(self, selector: str | type[Widget] = "*") -> Widget | None:
        """Tab. Textual's goes to panes that are hidden, behind others, or need a wider terminal, too."""
        self.action_pane(1)
        return self.focused

    def focus_previous(self, selector: str | type[Widget] = "*") -> Widget | None:
        """Shift+tab."""
        self.action_pane(-1)
        return self.focused

    # -- what keys and commands do -----------------------------------------------------------

    def action_zoom(self) -> None:
        """The focused pane fills the body, or goes back to its place."""
        if self.kept.zoomed:
            self.unzoom()
        elif self.arrangement is not Arrangement.ONE:
            self.kept.zoomed = self.at
            self.set_up()

    def unzoom(self) -> None:
        """Every pane back in its place; the one that was alone is seen there."""
        kept = self.kept
        if kept.zoomed:
            kept.bring_up(kept.zoomed)
            self._at, kept.zoomed = kept.zoomed, ""
            self.set_up()

    def action_tab(self, by: int) -> None:
        """To the next or previous of the panes that share a place."""
        panes = tuple(self.shown) if self.one_pane else self.stack_of(self.at)
        if len(panes) > 1:
            self.go_to(panes[(panes.index(self.at) + by) % len(panes)])

    def action_hide(self) -> None:
        """The focused pane goes; what it showed stays a command away."""
        self.hide(self.at)

    def hide(self, pane: str) -> bool:
        """False where it is the last one."""
        if self.shown == [pane]:
            self.notify("this is the last pane; it stays", markup=False)
            return False
        kept, beside = self.kept, [other for other in self.stack_of(pane) if other != pane]
        order = self.seen if pane in self.seen and len(self.seen) > 1 else self.shown
        kept.hidden.add(pane)
        kept.zoomed = "" if kept.zoomed == pane else kept.zoomed
        kept.raised = [other for other in kept.raised if other != pane]
        if self._at == pane:
            # The focus goes to what takes its place.
            at = order.index(pane)
            self._at = kept.front(beside) if beside else order[at + 1 if at + 1 < len(order) else at - 1]
        self.set_up()
        return True

    def pane_rows(self) -> list[PaneRow]:
        """All panes, for the list of them."""
        kept, seen = self.kept, self.seen
        return [
            PaneRow(
                pane,
                title,
                pane not in kept.hidden,
                "" if pane in kept.hidden or pane in seen else "behind",
            )
            for pane, title in PANES.items()
        ]

    def toggle(self, pane: str) -> None:
        """Hide it, or show it, in front of those that share its place."""
        if pane not in self.kept.hidden:
            self.hide(pane)
            return
        self.kept.hidden.discard(pane)
        self.kept.bring_up(pane)
        self.set_up()

    def action_list_panes(self) -> None:
        """To show and hide them."""
        self.app.push_screen(
            PaneList(self.pane_rows, self.toggle, self.action_usual_sizes, self.action_usual_panes)
        )

    def action_usual_panes(self) -> None:
        """Sizes, places and what is hidden as they were at first, for this size of terminal."""
        self._kept[self.arrangement] = panes_kept.load(Remembered(), self.arrangement)
        self.set_up()

    def action_usual_sizes(self) -> None:
        """The sizes as they were at first."""
        self.kept.weights.clear()
        self.set_up()

    def action_prompt(self) -> None:
        """Back to typing."""
        if self.one_pane and "chat" in self.shown:
            self.unzoom()
            self.go_to("chat")
        self.set_focus(self.prompt)

    def inspect_pane(self) -> None:
        """Let the inspector be seen; escape puts back what it covers."""
        if self.one_pane:
            self.go_to("node")
        elif "node" not in self.seen:
            self._inspected_over = next((p for p in self.stack_of("node") if p in self.seen), "")
            self.kept.hidden.discard("node")
            self.kept.bring_up("node")
            self.set_up()

    def end_inspection(self) -> bool:
        """False where it covers nothing."""
        over, self._inspected_over = self._inspected_over, ""
        if not over or "node" not in self.seen or over not in self.shown:
            return False
        self.kept.bring_up(over)
        self.set_up()
        return True

    @on(ChipRow.Picked, "#tabs, .place-tabs")
    def _tab(self, event: ChipRow.Picked) -> None:
        event.stop()
        self.go_to(event.key)
