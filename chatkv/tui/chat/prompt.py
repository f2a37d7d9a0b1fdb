"""Where a person types. Enter sends; ctrl+j (or alt+enter) makes a new line."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from chatkv.text import printable
from chatkv.tui.keys_in_order import obey_now

LARGE_PASTE = 8_000
"""Characters. A longer paste stands in the prompt as one short mark: laying out 1 MB would hang."""
MAX_ROWS = 8


class Prompt(TextArea):
    """A text area that grows with its text, remembers what was sent, and folds large pastes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", show=False),
        Binding("ctrl+j,alt+enter", "newline", "New line", show=False),
        Binding("up", "up", "Earlier", show=False),
        Binding("down", "down", "Later", show=False),
    ]

    DEFAULT_CSS = """
    Prompt, Prompt:focus {
        height: auto;
        min-height: 3;
        max-height: 10;
        padding: 0 1;
        background: $surface;
        border: round $foreground 30%;
        border-title-color: $text-muted;
        border-subtitle-color: $text-muted;
        scrollbar-size-vertical: 1;
    }
    Prompt:focus { border: round $accent; border-title-color: $accent; }
    """

    class Submitted(Message):
        """The person sends ``text`` (pastes unfolded) in the session ``key``; the prompt is empty again."""

        def __init__(self, key: str, text: str) -> None:
            self.key = key
            self.text = text
            super().__init__()

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            highlight_cursor_line=False,
            placeholder="Ask something…",
        )
        self.session_key = ""
        """Whose prompt this is now. What is sent says so: by the time it is read, another may be shown."""
        self._pastes: dict[str, str] = {}
        self._history: list[str] = []
        self._at = 0
        self._unsent = ""

    def on_mount(self) -> None:
        """Say the two keys that matter on the frame."""
        self.border_title = "Prompt"
        self.border_subtitle = "enter send · ^j newline"

    @property
    def full_text(self) -> str:
        """The text with every paste mark replaced by what was pasted."""
        text = self.text
        for mark, pasted in self._pastes.items():
            text = text.replace(mark, pasted)
        return text

    def load(self, text: str) -> None:
        """Replace the text; a very long one is folded like a paste. The cursor goes to its end."""
        text = printable(text)
        self._pastes.clear()
        self.text = self._fold(text) if len(text) > LARGE_PASTE else text
        self.move_cursor(self.document.end)

    def put_back(self, text: str) -> None:
        """``text`` could not be sent: it stands before whatever was typed since."""
        typed = self.full_text
        self.load(f"{text}\n{typed}" if typed else text)

    def set_history(self, sent: list[str]) -> None:
        """``sent``: what up and down walk through, oldest first."""
        self._history = sent
        self._at = len(sent)

    def action_send(self) -> None:
        """Enter."""
        text = self.full_text
        if text.strip():
            self.load("")
            self.post_message(self.Submitted(self.session_key, text))

    def action_newline(self) -> None:
        """Insert a line break at the cursor."""
        start, end = self.selection
        self._replace_via_keyboard("\n", start, end)

    def action_up(self) -> None:
        """Cursor up; in the first row, the text sent before."""
        if self.cursor_at_first_row and self._history and self._at > 0:
            if self._at == len(self._history):
                self._unsent = self.full_text
            self._at -= 1
            self.load(self._history[self._at])
        else:
            self.action_cursor_up()

    def action_down(self) -> None:
        """Cursor down; in the last row, the text sent after."""
        if self.cursor_at_last_row and self._at < len(self._history):
            self._at += 1
            self.load(self._unsent if self._at == len(self._history) else self._history[self._at])
        else:
            self.action_cursor_down()

    @property
    def cursor_at_first_row(self) -> bool:
        """True where cursor up can't go further."""
        return self.navigator.is_first_wrapped_line(self.cursor_location)

    @property
    def cursor_at_last_row(self) -> bool:
        """True where cursor down can't go further."""
        return self.navigator.is_last_wrapped_line(self.cursor_location)

    async def _on_key(self, event: events.Key) -> None:
        await obey_now(self, event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = printable(event.text)
        start, end = self.selection
        inserted = self._fold(text) if len(text) > LARGE_PASTE else text
        if result := self._replace_via_keyboard(inserted, start, end):
            self.move_cursor(result.end_location)

    def _fold(self, text: str) -> str:
        mark = f"[pasted {len(text):,} characters #{len(self._pastes) + 1}]"
        self._pastes[mark] = text
        return mark
