"""What the messages of a conversation say. It is shown as such: never markup, no controls."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import ClassVar, NamedTuple

from textual.app import App
from textual.content import Content
from textual.events import Leave, MouseMove

from chatkv.chat.tree import Message
from chatkv.text import one_line, printable
from chatkv.tui.chat.figures import Figures, answer_parts, ending
from chatkv.tui.chat.markdown import Document
from chatkv.tui.chat.message import MessageView
from chatkv.tui.chat.rows import Block, Text
from chatkv.tui.chat.thinking import Thinking
from chatkv.tui.chat.version import clickable
from chatkv.tui.keys.current import hint
from chatkv.tui.sessions.running import Running

SHOWN_CHARACTERS = 4_000
SHOWN_LINES = 60
SHOWN_ANSWER = 100_000
"""Characters of an answer that are laid out as Markdown."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def cut(text: str) -> str:
    """What is shown of a very long message; the whole of it was sent."""
    shown = "\n".join(text[:SHOWN_CHARACTERS].split("\n")[:SHOWN_LINES])
    rest = len(text) - len(shown)
    return f"{shown}\n… {rest:,} more characters (all of it was sent)" if rest else text


class UserView(MessageView):
    """What the person wrote, as plain text."""

    WHO: ClassVar[str] = "message--you"

    def __init__(self, text: str, message_id: str | None, who: str = "you", siblings: str = "") -> None:
        super().__init__(who)
        self.message_id = message_id
        self._said = Text(Content(printable(cut(text))))
        place = clickable(Content(siblings), siblings, message_id or "")
        self._siblings = Text(place, ("message--dim",)) if siblings else None
        self._note = ""
        self._note_text: Text | None = None

    def blocks(self) -> Sequence[Block]:
        """See the base class."""
        return [block for block in (self._said, self._siblings, self._note_text) if block is not None]

    def note(self, line: str) -> None:
        """A line under it; empty: none."""
        if line != self._note:
            self._note = line
            self._note_text = Text(Content(line), ("message--warning",)) if line else None
            self.changed()


class SystemView(MessageView):
    """The system prompt, in short, or another setting of the session."""

    def __init__(self, who: str) -> None:
        super().__init__(who)
        self._text = ""
        self._said = Text(Content(""))

    def blocks(self) -> Sequence[Block]:
        """See the base class."""
        return [self._said]

    def show(self, text: str) -> None:
        """Show this from now on."""
        if text != self._text:
            self._text = text
            self._said = Text(Content(one_line(text, 160)), ("message--aside",))
            self.changed()


class NoticeView(MessageView):
    """A question that got no answer, or an answer that ended badly, and what to do about it."""

    WHO: ClassVar[str] = "message--notice"

    def __init__(self, text: str, reason: str) -> None:
        super().__init__("!")
        question = Text(Content(one_line(text, 200)), ("message--dim",))
        self._blocks = [
            *([question] if text else []),
            Text(Content(printable(reason)), ("message--warning",)),
        ]

    def blocks(self) -> Sequence[Block]:
        """See the base class."""
        return self._blocks


def _progress(running: Running) -> str:
    """How far it is, and how to stop it."""
    count = len(running.token_ids)
    if running.over:
        return f"{count} tokens · done, others still run · {hint('back')} stops them"
    if running.stopping:
        return f"▌ {count} tokens · stopping…"
    if count == 0:
        spin = _SPINNER[int(monotonic() * 10) % len(_SPINNER)]
        known = running.doing or "reading the prompt"
        what = "waiting for the model to load" if running.request is None else known
        return f"{spin} {what} · {hint('back')} stops"
    if running.doing:
        return f"▌ {count} tokens · {running.doing} · {hint('back')} stops"
    speed = running.tokens_per_second
    rate = f" · {speed:.1f} tok/s" if speed else ""
    return f"▌ {count} tokens{rate} · {hint('back')} stops"


class Colours(NamedTuple):
    """``dark``: the background is; ``ansi``: there are the terminal's sixteen."""

    dark: bool
    ansi: bool

    @classmethod
    def of(cls, app: App[object]) -> Colours:
        """Those that ``app`` has now."""
        return cls(app.current_theme.dark, app.native_ansi_color)


class AnswerView(MessageView):
    """An answer as Markdown, streaming or whole, its line of figures, and why it ended before its end."""

    WHO: ClassVar[str] = "message--model"

    def __init__(
        self, who: str, colours: Colours, message: Message | None = None, siblings: str = ""
    ) -> None:
        """``colours``: those that code is highlighted for."""
        super().__init__(who)
        self.message_id = message.id if message else None
        self._figures = Figures([])
        self._thinking = Thinking()
        self._parts: list[str] = []
        self._ending: Text | None = None
        self._place = ""
        self._shown = 0
        self._colours = colours
        self._document = Document(dark=colours.dark, ansi=colours.ansi)
        if message:
            self._write(message.text, whole=True)
            self._show_figures(message, siblings)

    def blocks(self) -> Sequence[Block]:
        """See the base class."""
        return [
            *self._thinking.blocks,
            *self._document.blocks,
            *([self._figures] if self._figures.parts else []),
            *([self._ending] if self._ending is not None else []),
        ]

    def feed(self, running: Running, place: str = "") -> None:
        """Show what has come since the last call; ``place``: which of several it is, in words."""
        self._thinking.show(running.thinking, over=bool(running.text))
        self._write(running.text, whole=False)
        self._place = place
        self._set_figures([part for part in (place, _progress(running)) if part])
        self.changed()

    def settle(self, message: Message, siblings: str = "") -> None:
        """The answer is over and has become ``message``."""
        self.message_id = message.id
        self._write(message.text, whole=True)
        self._show_figures(message, siblings)
        self.changed()

    def note(self, line: str) -> None:
        """One more part behind the figures; empty: none. For a settled answer."""
        if self._set_figures([*self._parts, one_line(line, 300)] if line else self._parts):
            self.changed()

    def _write(self, text: str, whole: bool) -> None:
        end = len(text)
        if not whole and text.endswith("\r"):
            end -= 1  # Its newline may be in the next piece.
        end = min(end, SHOWN_ANSWER)
        if fresh := printable(text[self._shown : end]):
            self._document.append(fresh)
        self._shown = end
        if whole:
            self._document.end()

    def _show_figures(self, message: Message, siblings: str) -> None:
        tokens = len(message.token_ids or ())
        rest = len(message.text) - SHOWN_ANSWER
        # Not in the Markdown: the cut may lie inside a block of code.
        more = f"… {rest:,} more characters ({hint('chat.copy')} copies all)" if rest > 0 else ""
        self._parts = [part for part in (more, siblings, *answer_parts(message.meta, tokens)) if part]
        self._place = siblings
        self._set_figures(self._parts)
        why = ending(message.meta)
        self._ending = Text(Content(why), ("message--warning",)) if why else None
        self._thinking.show(message.thinking, over=True)

    def _set_figures(self, parts: list[str]) -> bool:
        of = self.message_id or ""
        if (parts, of) == (self._figures.parts, self._figures.message):
            return False
        self._figures = Figures(parts, self._place, of)
        return True

    def notify_style_update(self) -> None:
        """Code is highlighted for what is behind it."""
        super().notify_style_update()
        colours = Colours.of(self.app)
        if colours != self._colours:
            self._colours = colours
            self._document = Document(self._document.text, dark=colours.dark, ansi=colours.ansi)
            self.changed()

    # -- what was thought first --------------------------------------------------------------

    @property
    def thought(self) -> bool:
        """Whether anything was."""
        return bool(self._thinking.blocks)

    @property
    def unfolded(self) -> bool:
        """Whether it is shown."""
        return self._thinking.unfolded

    def unfold(self, unfolded: bool) -> None:
        """Show it, or do not."""
        if unfolded != self._thinking.unfolded:
            self.fold()

    def fold(self) -> None:
        """Fold that, or unfold it."""
        self._thinking.fold()
        self.changed()

    def clicked(self, y: int) -> bool:
        """A click on its line folds, too."""
        if self.block_at(y) is not self._thinking.line:
            return False
        self.fold()
        return True

    def on_mouse_move(self, event: MouseMove) -> None:
        """The line says that it can be clicked."""
        if self.thought and self._thinking.hover(self.block_at(event.y) is self._thinking.line):
            self.changed()

    def on_leave(self, event: Leave) -> None:
        """Not any more."""
        if self.thought and self._thinking.hover(False):
            self.changed()
