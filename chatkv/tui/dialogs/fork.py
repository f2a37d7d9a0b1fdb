"""Where to fork a session, with what it will cost before one does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from chatkv.chat.tree import Message
from chatkv.engine.messages import Measured
from chatkv.text import one_line
from chatkv.tui.dialogs.list_dialog import ListDialog
from chatkv.tui.hints import Hints
from chatkv.tui.keys.current import bind, hint

Measure = Callable[[Message, Callable[[Measured], None]], bool]
"""Has the prompt behind a message measured, and tells; False where there is no engine to do it."""

AGAIN_S = 1.0
"""Between two measurements of the same message."""

WHO = {"user": "you", "assistant": "answer", "system": "system"}


def cost(measured: Measured, role: str) -> str:
    """In words: what the first prompt of the fork takes from the cache, and what it computes."""
    if measured.problem:
        return measured.problem
    computed = measured.prompt_tokens - measured.reused
    if role == "user":
        return f"answering it: {measured.reused:,} tokens reused from the cache, {computed:,} computed"
    return (
        f"next question: {measured.reused:,} tokens reused from the cache, {computed:,} and its own computed"
    )


class ForkDialog(ListDialog[str]):
    """Dismissed with the id of the message to fork at, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("dialog.close", "cancel"),
        bind("move.down", "cursor(1)"),
        bind("move.up", "cursor(-1)"),
        bind("fork", "take"),
    ]

    DEFAULT_CSS = """
    ForkDialog > Vertical {
        width: 84; max-width: 95%; height: auto; border: round $accent; background: $surface;
        padding: 0 1; border-title-color: $accent;
    }
    ForkDialog OptionList, ForkDialog OptionList:focus {
        height: auto; max-height: 10; border: none; background: transparent; padding: 0;
    }
    ForkDialog .cost { margin: 1 0 0 0; color: $kv-reused; height: auto; }
    """

    def __init__(self, path: Sequence[Message], at: str, measure: Measure) -> None:
        """``path``: the messages to choose from; ``at``: the id of the one that is marked at first."""
        super().__init__()
        self._path = {message.id: message for message in path}
        self._at = at
        self._measure = measure
        self._costs: dict[str, str] = {}
        self._asked: set[str] = set()
        """Those whose cost is being measured."""

    def compose(self) -> ComposeResult:
        """Its parts."""
        with Vertical() as box:
            box.border_title = "Fork behind"
            options = [
                Option(
                    Content(f"{WHO[message.role]:>6}  {one_line(message.text or message.thinking, 62)}"),
                    id=message.id,
                )
                for message in self._path.values()
            ]
            yield OptionList(*options, markup=False)
            yield Static("", classes="cost", markup=False)
            yield Hints("enter fork", "↑ ↓ another message", f"{hint('dialog.close')} cancel")

    def on_mount(self) -> None:
        """The marked one is in view."""
        options = self.query_one(OptionList)
        options.focus()
        options.highlighted = options.get_option_index(self._at)
        # While one chooses, other sessions' answers push out what was cached.
        self.set_interval(AGAIN_S, self._ask)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._at = event.option_id or self._at
        self._ask()

    def _ask(self) -> None:
        """Have the marked one measured; what was told before stays until then."""
        message = self._path[self._at]
        if message.id not in self._asked:

            def told(measured: Measured) -> None:
                self._asked.discard(message.id)
                self._costs[message.id] = cost(measured, message.role)
                self._show()

            if self._measure(message, told):
                self._asked.add(message.id)
                self._costs.setdefault(message.id, "measuring…")
        self._show()

    def _show(self) -> None:
        if self.is_attached:
            unknown = "the cost is not known before the model is loaded"
            self.query_one(".cost", Static).update(Content(self._costs.get(self._at, unknown)))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option_id)

    def action_take(self) -> None:
        """The same key again forks where the mark is."""
        self.dismiss(self._at)
