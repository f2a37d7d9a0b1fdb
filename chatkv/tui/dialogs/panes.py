"""The panes, to show and hide them: also the way back for one that was hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from chatkv.tui.dialogs.list_dialog import ListDialog
from chatkv.tui.hints import Hints
from chatkv.tui.keys.current import bind, short


class PaneRow(NamedTuple):
    """One pane: its id, what it is called, whether it is shown, and what else there is to say of it."""

    pane: str
    title: str
    shown: bool
    note: str = ""


class PaneList(ListDialog[None]):
    """Enter, space or a click shows or hides the pane under the cursor; the screen behind follows at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("panes.close", "cancel"),
        bind("pane.list", "cancel"),
        bind("panes.toggle", "pick"),
        bind("pane.usual_sizes", "usual_sizes"),
        bind("panes.usual", "usual"),
        bind("move.down", "cursor(1)"),
        bind("move.up", "cursor(-1)"),
    ]

    DEFAULT_CSS = """
    PaneList { background: $background 0%; }
    PaneList > Vertical {
        width: 52; max-width: 95%; height: auto; max-height: 82%; border: round $accent;
        background: $surface; padding: 0 1; border-title-color: $accent;
    }
    PaneList OptionList, PaneList OptionList:focus {
        height: auto; max-height: 10; border: none; background: transparent; padding: 0;
    }
    """

    def __init__(
        self,
        rows: Callable[[], Sequence[PaneRow]],
        toggle: Callable[[str], object],
        usual_sizes: Callable[[], object],
        usual: Callable[[], object],
    ) -> None:
        super().__init__()
        self._rows = rows
        self._toggle, self._usual_sizes, self._usual = toggle, usual_sizes, usual

    def compose(self) -> ComposeResult:
        """Its parts."""
        with Vertical() as box:
            box.border_title = "Panes"
            yield OptionList(markup=False)
            yield Hints(
                f"{short('panes.toggle')} show, hide",
                f"{short('pane.usual_sizes')} usual sizes",
                f"{short('panes.usual')} all as at first",
                f"{short('panes.close')} close",
            )

    def on_mount(self) -> None:
        """The cursor is on the first."""
        self._fill(0)
        self.query_one(OptionList).focus()

    def _fill(self, at: int | None) -> None:
        options = self.query_one(OptionList)
        options.set_options(
            Option(
                Content.assemble(
                    f"[{'x' if row.shown else ' '}] {row.title:<10}", (f" {row.note}", "$text-muted")
                ),
                id=row.pane,
            )
            for row in self._rows()
        )
        options.highlighted = at

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id is not None:
            self._toggle(event.option_id)
            self._fill(event.option_index)

    def action_pick(self) -> None:
        """As enter does."""
        self.query_one(OptionList).action_select()

    def action_usual_sizes(self) -> None:
        """The sizes as they were at first."""
        self._usual_sizes()

    def action_usual(self) -> None:
        """All as it was at first."""
        self._usual()
        self._fill(self.query_one(OptionList).highlighted)
