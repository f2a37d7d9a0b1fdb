"""Where a person types. Enter sends; ctrl+j (or alt+enter) makes a new line; tab takes what is offered."""

from __future__ import annotations

import re
from typing import ClassVar

from textual import events
from textual.actions import SkipAction
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import TextArea

from chatkv.text import one_line, printable
from chatkv.tui.chat.files import FileRefusedError, read_text_file, wrapped
from chatkv.tui.chat.offers import Choice, Offer, Sources, offer
from chatkv.tui.keys.current import bind, short
from chatkv.tui.keys_in_order import obey_now

LARGE_PASTE = 8_000
"""Characters. A longer paste stands in the prompt as one short mark: laying out 1 MB would hang."""


class Prompt(TextArea):
    """A text area that grows with its text, remembers what was sent, and folds large pastes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("prompt.send", "send"),
        bind("prompt.newline", "newline"),
        bind("prompt.earlier", "up"),
        bind("prompt.later", "down"),
        bind("prompt.complete", "take"),
    ]

    DEFAULT_CSS = """
    Prompt, Prompt:focus {
        height: auto;
        min-height: 3;
        max-height: 10;
        padding: 0 1;
        background: $surface;
        border: round $frame;
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

    class Offered(Message):
        """What may be put in for what is being typed; ``at`` is the marked one."""

        def __init__(self, choices: tuple[Choice, ...], at: int) -> None:
            self.choices = choices
            self.at = at
            super().__init__()

    class Refused(Message):
        """Something can't be put in; ``reason`` is one line."""

        def __init__(self, reason: str) -> None:
            self.reason = reason
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
        self.sources = Sources()
        self._offer: Offer | None = None
        self._marked = 0
        self._moved = False
        """The person has chosen with the arrows."""
        self.sending = ""
        """What was sent and the app has not heard of yet: a key may be faster than a message."""
        self._typing = False
        """False after a text came in whole: what was not typed just now opens no list."""

    def on_mount(self) -> None:
        """Say the two keys that matter on the frame."""
        self.border_title = "Prompt"
        self.border_subtitle = f"{short('prompt.send')} send · {short('prompt.newline')} newline"

    @property
    def full_text(self) -> str:
        """The text with every paste mark replaced by what was pasted."""
        if not self._pastes:
            return self.text
        marks = "|".join(map(re.escape, self._pastes))
        # In one go: what was pasted may spell another's mark.
        return re.sub(marks, lambda mark: self._pastes[mark[0]], self.text)

    def load(self, text: str) -> None:
        """Replace the text; a very long one is folded like a paste. The cursor goes to its end."""
        text = printable(text)
        self._pastes.clear()
        self._typing = False
        self.text = self._fold(text) if len(text) > LARGE_PASTE else text
        self.move_cursor(self.document.end)

    def begin(self, line: str) -> None:
        """``line`` takes the place of the text as if it had been typed: what may follow it is offered."""
        self.load(line)
        self._typing = True
        self._look()

    def put_back(self, text: str) -> None:
        """``text`` could not be sent: it stands before whatever was typed since."""
        typed = self.full_text
        self.load(f"{text}\n{typed}" if typed else text)

    def set_history(self, sent: list[str]) -> None:
        """``sent``: what up and down walk through, oldest first."""
        self._history = sent
        self._at = len(sent)

    def action_send(self) -> None:
        """Enter: take what is offered where that changes the text, else send."""
        self._look()
        if (choice := self._choice) is not None and (self._moved or self._goes_on(choice)):
            self._take(choice)
            return
        text = self.full_text
        if text.strip():
            self.load("")
            self.sending = text
            self.post_message(self.Submitted(self.session_key, text))

    def action_newline(self) -> None:
        """Insert a line break at the cursor."""
        start, end = self.selection
        self._replace_via_keyboard("\n", start, end)

    def action_up(self) -> None:
        """The choice before; else cursor up; in the first row, the text sent before."""
        if self._offer:
            self._mark(-1)
        elif self.cursor_at_first_row and self._history and self._at > 0:
            if self._at == len(self._history):
                self._unsent = self.full_text
            self._at -= 1
            self.load(self._history[self._at])
        else:
            self.action_cursor_up()

    def action_down(self) -> None:
        """The choice after; else cursor down; in the last row, the text sent after."""
        if self._offer:
            self._mark(1)
        elif self.cursor_at_last_row and self._at < len(self._history):
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

    # What is offered

    @property
    def _choice(self) -> Choice | None:
        return self._offer.choices[self._marked] if self._offer else None

    def _goes_on(self, choice: Choice) -> bool:
        """Whether taking it adds to what was typed; a lone @ or a whole command is sent as it stands."""
        typed = self._before[self._offer.start :] if self._offer else ""
        return typed != "@" and (choice.file is not None or choice.text.rstrip() != typed.rstrip())

    @property
    def _before(self) -> str:
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    def _look(self) -> None:
        """See what there is to offer now, and have it shown."""
        fresh = offer(self._before, self.cursor_location[0] == 0, self.sources) if self._typing else None
        if fresh != self._offer:
            self._offer, self._marked, self._moved = fresh, 0, False
            self._show_offer()

    def _show_offer(self) -> None:
        self.post_message(self.Offered(self._offer.choices if self._offer else (), self._marked))

    def _mark(self, by: int) -> None:
        if self._offer:
            self._marked = (self._marked + by) % len(self._offer.choices)
            self._moved = True
            self._show_offer()

    def pick(self, index: int) -> None:
        """Take choice ``index``."""
        if self._offer and index < len(self._offer.choices):
            self._take(self._offer.choices[index])

    def action_take(self) -> None:
        """Tab: put in the marked choice; with nothing offered, tab moves the focus."""
        self._look()
        if (choice := self._choice) is None:
            raise SkipAction
        self._take(choice)

    def _take(self, choice: Choice) -> None:
        assert self._offer is not None
        row, column = self.cursor_location
        text = choice.text
        if choice.file is not None:
            try:
                text = self._inserted(choice)
            except FileRefusedError as error:
                self.post_message(self.Refused(str(error)))
                return
        start = (row, 0 if choice.file is not None and self._before.startswith("/") else self._offer.start)
        if result := self._replace_via_keyboard(text, start, (row, column)):
            self.move_cursor(result.end_location)
        self._look()

    def _inserted(self, choice: Choice) -> str:
        assert choice.file is not None
        whole = wrapped(choice.file, read_text_file(choice.file))
        return self._fold(whole, f"file {one_line(choice.file.name, 60)},") + " "

    def insert_file(self, choice: Choice) -> None:
        """Put the file in at the cursor. Raises FileRefusedError."""
        self.insert(self._inserted(choice))

    def on_text_area_changed(self) -> None:
        """The text is another one now."""
        self._look()

    def on_text_area_selection_changed(self) -> None:
        """The cursor is elsewhere."""
        self._look()

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable or event.key in ("backspace", "delete"):
            self._typing = True
        if event.key == "escape" and self._offer is not None:
            # No binding: it would hide what escape does otherwise.
            event.stop()
            event.prevent_default()
            self._typing = False
            self._look()
            return
        await obey_now(self, event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = printable(event.text)
        start, end = self.selection
        inserted = self._fold(text) if len(text) > LARGE_PASTE else text
        if result := self._replace_via_keyboard(inserted, start, end):
            self.move_cursor(result.end_location)

    def _fold(self, text: str, what: str = "pasted") -> str:
        mark = f"[{what} {len(text):,} characters #{len(self._pastes) + 1}]"
        self._pastes[mark] = text
        return mark
