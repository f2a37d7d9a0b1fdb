"""All keys on one screen."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

HELP: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Prompt",
        (
            ("enter", "send"),
            ("ctrl+j, alt+enter", "new line"),
            ("up, down", "earlier and later messages, at the edges of the text"),
            ("esc", "stop the answer; otherwise leave the prompt (typing keys then act on panes)"),
        ),
    ),
    (
        "Sessions",
        (
            ("ctrl+n", "new"),
            ("ctrl+s", "list: filter, open, rename, delete"),
            ("alt+1 … alt+9", "switch"),
            ("ctrl+o", "fork here: a new session that shares everything up to now"),
            ("f2", "rename"),
            ("delete", "in the list: delete (asks); u brings it back"),
        ),
    ),
    (
        "Chat pane",
        (
            ("ctrl+r", "answer the last question again"),
            ("[ ]", "previous, next of several answers"),
            ("e", "edit the last question"),
            ("y", "copy the last answer, as Markdown"),
            ("g, G", "top (again: earlier messages), end"),
            ("i, enter", "back to the prompt"),
        ),
    ),
    (
        "Panes",
        (
            ("f6, shift+f6", "next, previous pane"),
            ("z", "zoom the pane, and back"),
            ("hjkl, arrows, g, G", "move"),
            ("enter, /, o", "inspect, filter, sort"),
            ("space", "freeze the picture; the engine goes on, nothing is lost"),
            ("x", "export the picture as JSON and SVG"),
        ),
    ),
    (
        "Everywhere",
        (
            ("ctrl+p", "all commands: themes, clear the cache, stop all …"),
            ("ctrl+c", "copy what is selected"),
            ("ctrl+q", "quit; running answers are kept as far as they came"),
            ("f1, ?", "this help"),
        ),
    ),
)

GLYPHS = (
    ("=", "reused", "kv-reused"),
    ("+", "new", "kv-new"),
    ("x", "evicted", "kv-evicted"),
    ("#", "locked", "kv-locked"),
    ("·", "idle", "kv-idle"),
    (".", "free", "kv-free"),
)


class Help(ModalScreen[None]):
    """Escape, f1, ? or q closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,question_mark,q,enter", "close", show=False)]

    DEFAULT_CSS = """
    Help { align: center middle; }
    Help > VerticalScroll {
        width: 84; max-width: 96%; height: auto; max-height: 92%;
        border: round $accent; background: $surface; padding: 0 2; border-title-color: $accent;
        border-subtitle-color: $text-muted; scrollbar-size-vertical: 1;
    }
    """

    def compose(self) -> ComposeResult:
        """Its parts."""
        with VerticalScroll() as box:
            box.border_title = "Keys"
            box.border_subtitle = "esc closes"
            yield Static(self.content(), markup=False)

    @staticmethod
    def content() -> Content:
        """The whole text."""
        parts: list[Content] = []
        for title, keys in HELP:
            parts.append(Content(f"{title}\n").stylize("bold $accent"))
            for key, what in keys:
                parts.append(Content.assemble((f"  {key:<20} ", "$text"), (f"{what}\n", "$text-muted")))
        parts.append(Content("Nodes and blocks\n").stylize("bold $accent"))
        parts.append(Content("  "))
        for glyph, word, colour in GLYPHS:
            parts.append(Content.assemble((f"{glyph} {word}", f"${colour}"), "   "))
        return Content("").join(parts)

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)
