"""All keys on one screen."""

from __future__ import annotations

from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widget import Widget

_KEYS = 20

HELP: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Prompt",
        (
            ("enter", "send"),
            ("ctrl+j, alt+enter", "new line"),
            ("up, down", "earlier and later messages, at the edges of the text"),
            ("/", "commands; tab or enter completes (a text may begin with // or a path, or a space)"),
            ("@", "insert a text file: tab or enter takes the path"),
            ("esc", "stop the answer; otherwise leave the prompt (typing keys then act on panes)"),
        ),
    ),
    (
        "Sessions",
        (
            ("ctrl+n", "new"),
            ("ctrl+s", "list: filter, open, rename, delete and back (ctrl+z), sort (ctrl+t)"),
            ("ctrl+f", "search what was said in all sessions, in every branch"),
            ("alt+1 … alt+9", "switch"),
            ("ctrl+o", "fork at any message: what is reused and computed is shown before enter"),
            ("f2", "rename"),
            ("delete, u, o, /", "in the list at the left: delete (asks), undo, sort, filter"),
        ),
    ),
    (
        "Chat pane",
        (
            ("K, J, click", "select a message (shift+up, shift+down too): keys below act on it; esc ends it"),
            ("ctrl+r", "answer the last question again"),
            ("left, right, [ ]", "previous, next of several answers, or of several versions of a question"),
            ("e", "edit the last question; what was there stays, as another branch"),
            ("y, c", "copy the last answer as Markdown; a code block of it (again: the next)"),
            ("v", "verify: compute the last answer again without the cache, and compare"),
            ("t", "unfold what the model thought first, and fold it"),
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
            ("enter", "inspect a node or a block"),
            ("p", "in the tree: pin the node and what is above it (evicted last), and back"),
            ("/", "in the tree and the events: filter by text, session, state; esc shows all"),
            ("o", "in the tree: order by recency, size, hits, as it came"),
            ("d", "in the block map: one cell for many blocks, or one for each"),
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


class KeyTable(Widget):
    """Keys on the left, what they do on the right, wrapped under itself."""

    DEFAULT_CSS = """
    KeyTable { height: auto; }
    """

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines at this width."""
        return len(self._lines(width))

    def render(self) -> Content:
        """As drawn now."""
        return Content("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Content]:
        lines: list[Content] = []
        for title, keys in HELP:
            lines.append(Content(title).stylize("bold $accent"))
            for key, what in keys:
                for at, piece in enumerate(wrap(what, max(10, width - _KEYS - 2))):
                    lines.append(Content.assemble(f"  {'' if at else key:<{_KEYS}}", (piece, "$text-muted")))
        lines.append(Content("Nodes and blocks").stylize("bold $accent"))
        marks = [Content(f"{glyph} {word}   ").stylize(f"${colour}") for glyph, word, colour in GLYPHS]
        lines += [Content.assemble("  ", *marks[:3]), Content.assemble("  ", *marks[3:])]
        return lines


class Help(ModalScreen[None]):
    """Escape, f1, ? or q closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "close", show=False)]

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
            yield KeyTable()

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)
