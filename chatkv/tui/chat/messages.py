"""One widget a message. What people and models wrote is shown as such: never markup, no controls."""

from __future__ import annotations

from time import monotonic

from markdown_it import MarkdownIt
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Click
from textual.message import Message as TextualMessage
from textual.widgets import Static

from chatkv.chat.tree import Message
from chatkv.text import one_line, printable
from chatkv.tui.chat.figures import Figures, answer_parts
from chatkv.tui.chat.streamed import StreamedMarkdown
from chatkv.tui.chat.thinking import Thinking
from chatkv.tui.cheap_layout import LaidOutOnce
from chatkv.tui.keys.current import hint
from chatkv.tui.sessions.running import Running

SHOWN_CHARACTERS = 4_000
SHOWN_LINES = 60
SHOWN_ANSWER = 100_000
"""Characters of an answer that are laid out as Markdown."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def _parser() -> MarkdownIt:
    """Without HTML: "<think>" or "<b>" in an answer is text, and must not vanish."""
    return MarkdownIt("gfm-like", {"html": False})


def cut(text: str) -> str:
    """What is shown of a very long message; the whole of it was sent."""
    shown = "\n".join(text[:SHOWN_CHARACTERS].split("\n")[:SHOWN_LINES])
    rest = len(text) - len(shown)
    return f"{shown}\n… {rest:,} more characters (all of it was sent)" if rest else text


class Said(LaidOutOnce, Vertical):
    """What was said, under one another."""


class MessageView(LaidOutOnce, Horizontal):
    """Base: who said it on the left, what was said on the right."""

    DEFAULT_CSS = """
    MessageView { height: auto; padding: 0 1 0 0; margin: 0 0 1 0; }
    MessageView > .who { width: 8; color: $text-muted; }
    MessageView > .said { width: 1fr; height: auto; }
    MessageView.-selected > .who { color: $background; background: $accent; height: 1; }
    MessageView.-selected > .who:ansi { color: $accent; background: ansi_default; text-style: bold reverse; }
    """

    message_id: str | None = None
    """None while it is not (or never becomes) a message of the conversation."""

    class Clicked(TextualMessage):
        """The person clicked the message ``id``."""

        def __init__(self, id: str) -> None:
            self.id = id
            super().__init__()

    def __init__(self, who: str) -> None:
        super().__init__()
        self._heading = Static(f" {who}", classes="who", markup=False)
        self._label = who

    def select(self, selected: bool) -> None:
        """Show that keys act on this one (or no longer)."""
        self.set_class(selected, "-selected")
        self._heading.update(f"{'▸' if selected else ' '}{self._label}")

    def on_click(self, event: Click) -> None:
        """Select it, unless text was being marked with the mouse."""
        if self.message_id is not None and not self.screen.get_selected_text():
            self.post_message(self.Clicked(self.message_id))


class UserView(MessageView):
    """What the person wrote, as plain text."""

    DEFAULT_CSS = """
    UserView > .who { color: $accent; text-style: bold; }
    UserView .siblings { color: $text-muted; }
    UserView .note { color: $warning; }
    """

    def __init__(self, text: str, message_id: str | None, who: str = "you", siblings: str = "") -> None:
        super().__init__(who)
        self.message_id = message_id
        self._text = printable(cut(text))
        self._siblings = siblings
        self._note = Static("", classes="note", markup=False)
        self._note.display = False

    def compose(self) -> ComposeResult:
        """Its parts."""
        yield self._heading
        with Said(classes="said"):
            yield Static(Content(self._text), markup=False)
            if self._siblings:
                yield Static(self._siblings, classes="siblings", markup=False)
            yield self._note

    def note(self, line: str) -> None:
        """A line under it; empty: none."""
        if self._note.display != bool(line):
            self._note.display = bool(line)
            self._note.update(line)


class SystemView(MessageView):
    """The system prompt, in short, or another setting of the session; not there while it is empty."""

    DEFAULT_CSS = """
    SystemView > .said { color: $text-muted; text-style: italic; }
    """

    def __init__(self, who: str) -> None:
        super().__init__(who)
        self._said = Static("", classes="said", markup=False)
        self._text = ""
        self.display = False

    def compose(self) -> ComposeResult:
        """Its parts."""
        yield self._heading
        yield self._said

    def show(self, text: str) -> None:
        """Show this from now on."""
        self.display = bool(text)
        if text != self._text:
            self._text = text
            self._said.update(Content(one_line(text, 160)))


class NoticeView(MessageView):
    """A question that got no answer, or an answer that ended badly, and what to do about it."""

    DEFAULT_CSS = """
    NoticeView > .who { color: $warning; text-style: bold; }
    NoticeView .question { color: $text-muted; }
    NoticeView .reason { color: $warning; }
    """

    def __init__(self, text: str, reason: str) -> None:
        super().__init__("!")
        self._text = one_line(text, 200)
        self._reason = printable(reason)

    def compose(self) -> ComposeResult:
        """Its parts."""
        yield self._heading
        with Said(classes="said"):
            if self._text:
                yield Static(Content(self._text), classes="question", markup=False)
            yield Static(Content(self._reason), classes="reason", markup=False)


def _progress(running: Running) -> str:
    """How far it is, and how to stop it."""
    count = len(running.token_ids)
    if running.over:
        return f"{count} tokens · done, others still run · {hint('back')} stops them"
    if running.stopping:
        return f"▌ {count} tokens · stopping…"
    if count == 0:
        spin = _SPINNER[int(monotonic() * 10) % len(_SPINNER)]
        what = "waiting for the model to load" if running.request is None else "reading the prompt"
        return f"{spin} {what} · {hint('back')} stops"
    speed = running.tokens_per_second
    rate = f" · {speed:.1f} tok/s" if speed else ""
    return f"▌ {count} tokens{rate} · {hint('back')} stops"


class AnswerView(MessageView):
    """An answer as Markdown, streaming or whole, and its line of figures."""

    DEFAULT_CSS = """
    AnswerView > .who { color: $success; text-style: bold; }
    AnswerView MarkdownFence { margin: 0 0 1 0; }
    AnswerView MarkdownFence > Label { padding: 0 1; }
    AnswerView Markdown { padding: 0; margin: 0; background: transparent; }
    """

    def __init__(self, who: str, message: Message | None = None, siblings: str = "") -> None:
        super().__init__(who)
        self.message_id = message.id if message else None
        self._markdown = StreamedMarkdown(
            printable(message.text[:SHOWN_ANSWER]) if message else "",
            parser_factory=_parser,
            open_links=False,
        )
        self._figures = Figures()
        self.thinking = Thinking()
        self._parts: list[str] = []
        self._shown = 0
        if message:
            self._show_figures(message, siblings)

    def compose(self) -> ComposeResult:
        """Its parts."""
        yield self._heading
        with Said(classes="said"):
            yield self.thinking
            yield self._markdown
            yield self._figures

    async def feed(self, running: Running, place: str = "") -> None:
        """Show what has come since the last call; ``place``: which of several it is, in words."""
        self.thinking.show(running.thinking, over=bool(running.text))
        await self._write(running.text, whole=False)
        self._figures.show([part for part in (place, _progress(running)) if part])

    async def settle(self, message: Message, siblings: str = "") -> None:
        """The answer is over and has become ``message``."""
        self.message_id = message.id
        await self._write(message.text, whole=True)
        self._show_figures(message, siblings)

    async def _write(self, text: str, whole: bool) -> None:
        end = len(text)
        if not whole and text.endswith("\r"):
            end -= 1  # Its newline may be in the next piece.
        end = min(end, SHOWN_ANSWER)
        fresh = printable(text[self._shown : end])
        self._shown = end
        if fresh and self._markdown.is_attached:
            # At once, not as a stream's task: it comes into one frame with all else that is drawn now.
            await self._markdown.append(fresh)

    def _show_figures(self, message: Message, siblings: str) -> None:
        tokens = len(message.token_ids or ())
        rest = len(message.text) - SHOWN_ANSWER
        # Not in the Markdown: the cut may lie inside a block of code.
        more = f"… {rest:,} more characters ({hint('chat.copy')} copies all)" if rest > 0 else ""
        self._parts = [part for part in (more, siblings, *answer_parts(message.meta, tokens)) if part]
        self._figures.show(self._parts)
        thinking = message.meta.get("thinking")
        self.thinking.show(thinking if isinstance(thinking, str) else "", over=True)

    def note(self, line: str) -> None:
        """One more part behind the figures; empty: none. For a settled answer."""
        self._figures.show([*self._parts, one_line(line, 300)] if line else self._parts)
