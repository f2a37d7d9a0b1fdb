"""All keys on one screen."""

from __future__ import annotations

from itertools import zip_longest
from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from chatkv.tui.cache.states import HERE, ONCE, Look
from chatkv.tui.dialogs.dialog import Dialog
from chatkv.tui.keys.current import bind, fill, hint

_KEYS = 20
_TWO_COLUMNS, _GAP = 150, 4
"""Cells from which there are two columns, and those between them."""

HELP: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Prompt",
        (
            ("{prompt.send*}", "send"),
            ("{prompt.newline*}", "new line"),
            (
                "{prompt.earlier*}, {prompt.later*}",
                "earlier and later messages, at the edges of the text",
            ),
            (
                "/",
                "commands; {prompt.complete} or {prompt.send} completes "
                "(a text may begin with // or a path, or a space)",
            ),
            ("@", "insert a text file: {prompt.complete} or {prompt.send} takes the path"),
            ("{back*}", "stop the answer; otherwise leave the prompt (typing keys then act on panes)"),
        ),
    ),
    (
        "Sessions",
        (
            ("{new*}", "new"),
            (
                "{sessions*}",
                "list: filter, open, rename, delete and back ({picker.undo}), sort ({picker.sort})",
            ),
            ("{search*}", "search what was said in all sessions, in every branch"),
            ("{go_1} … {go_9}", "switch"),
            ("{fork*}", "fork at any message: what is reused and computed is shown before enter"),
            ("{rename*}", "rename"),
            (
                "{list.delete}, {list.undo}, {pane.sort}, {pane.filter}",
                "in the list at the left: delete (asks), undo, sort, filter",
            ),
        ),
    ),
    (
        "Chat pane",
        (
            (
                "{chat.previous*}, {chat.next*}",
                "or a click: select the message before, after: keys below act on it; {back} ends it",
            ),
            ("{again*}", "answer the last question again"),
            ("{chat.answers*}", "three answers at once, which share the prompt's cache; /answers 5: five"),
            (
                "{chat.older_version*}, {chat.newer_version*}",
                "previous, next of several answers, or of several versions of a question",
            ),
            ("{chat.edit*}", "edit the last question; what was there stays, as another branch"),
            (
                "{chat.copy*}, {chat.copy_code*}",
                "copy the last answer as Markdown; a code block of it (again: the next)",
            ),
            (
                "{chat.sideways_left*}, {chat.sideways_right*}",
                "move code and tables that go on at their edge (›) back, further; shift and wheel, too",
            ),
            ("{chat.verify*}", "verify: compute the last answer again without the cache, and compare"),
            ("{chat.thinking*}", "unfold what the model thought first, and fold it"),
            ("{move.first}, {move.last}", "top (again: earlier messages), end"),
            ("{pane.write}, {chat.write}", "back to the prompt"),
        ),
    ),
    (
        "Panes",
        (
            ("{next_pane}, {previous_pane}", "next, previous pane"),
            ("{pane.zoom*}", "zoom the pane, and back; so does a double click on its title"),
            (
                "{pane.previous_tab}, {pane.next_tab}",
                "the other panes in the same place; so does a click on a tab",
            ),
            ("{pane.hide}, {pane.list}", "hide the pane; list of panes: show, hide"),
            (
                "{pane.line_left}, {pane.line_right}, {pane.line_up}, {pane.line_down}",
                "move the border beside the pane; the mouse drags it",
            ),
            (
                "{pane.taller}, {pane.lower}, {pane.wider}, {pane.narrower}",
                "make the pane taller, lower, wider, narrower",
            ),
            ("{pane.usual_sizes}", "the usual sizes; so does a double click on a border"),
            ("{move.up*}, {move.down*}", "up, down"),
            ("{move.left*}, {move.right*}", "left, right"),
            ("{tree.fold*}, {tree.unfold*}", "in the tree: fold, unfold"),
            ("{move.first*}, {move.last*}", "first, last"),
            (
                "{pane.inspect*}",
                "inspect a node or a block; of an event light up the nodes; in the queue go to the session",
            ),
            ("{tree.pin*}", "in the tree: pin the node and what is above it (evicted last), and back"),
            (
                "{pane.filter*}",
                "in the tree and the events: filter by text, session, state (in the events -word: "
                "without it); esc shows all",
            ),
            ("{pane.sort*}", "in the tree: order by recency, size, hits, as it came"),
            ("{pane.tree}, {pane.blocks}", "to a block's node in the tree; to a node's blocks in the map"),
            (
                "{map.nearer}, {map.further}, {map.density}",
                "in the block map: fewer or more blocks a cell; one a cell, or the whole pool",
            ),
            ("{pane.captions*}", "captions: a line that says what has just happened, or none"),
            ("{pane.pause*}", "freeze the picture; the engine goes on, nothing is lost"),
            ("{pane.export*}", "export the picture as JSON and SVG"),
        ),
    ),
    (
        "Everywhere",
        (
            ("{palette*}", "all commands: themes, clear the cache, stop all …"),
            ("{copy*}", "copy what is selected"),
            ("{quit*}", "quit; running answers are kept as far as they came"),
            ("{help}, {pane.help}", "this help; keys are yours to change: chatkv config --keys"),
        ),
    ),
)
"""Title → keys and what they do, to be filled in with the keys in force."""

IN_BROWSER = (
    "In a browser",
    (
        ("ctrl+n, ctrl+t", "are the browser's; a new session: {new}, sort the list: {picker.sort}"),
        ("ctrl+w", "closes the tab; alt+backspace deletes a word"),
        ("ctrl+q", "closes all of Firefox; {quit} quits the chat"),
        ("f11, ctrl+tab", "are its own, too; so are many with ctrl+shift"),
        ("a closed tab", "ends nothing: the chat goes on, the address finds it again"),
        ("on a Mac", "those are \u2318's keys, and ctrl+n, ctrl+t, ctrl+w arrive"),
        ("ctrl+v", "pastes what the system has"),
    ),
)
"""The same, where ``--web`` shows the screen; browsers' keys are not a person's to change."""


class KeyTable(Widget):
    """Keys on the left, what they do on the right, wrapped under itself. Drawn once for each width."""

    DEFAULT_CSS = """
    KeyTable { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Content] = []
        self._strips: list[Strip] = []
        self._width = 0

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines at this width."""
        self._lay(width)
        return len(self._lines)

    def notify_style_update(self) -> None:
        """Other colours."""
        super().notify_style_update()
        self._strips = []

    def render_lines(self, crop: Region) -> list[Strip]:
        """As drawn before."""
        width = self.size.width
        self._lay(width)
        if not self._strips:
            self._strips = Visual.to_strips(
                self, Content("\n").join(self._lines), width, None, self.visual_style, pad=True
            )
        strips = [strip.crop(*crop.column_span) for strip in self._strips[crop.y : crop.bottom]]
        for filter in self.get_line_filters():
            strips = [strip.apply_filter(filter, self.background_colors[1]) for strip in strips]
        return strips

    def _lay(self, width: int) -> None:
        if width == self._width:
            return
        self._width, self._strips = width, []
        if width < _TWO_COLUMNS:
            self._lines = [line for section in self._sections(width) for line in section]
        else:
            self._lines = _side_by_side(self._sections((width - _GAP) // 2), (width - _GAP) // 2)

    def _sections(self, width: int) -> list[list[Content]]:
        """Title and lines of each."""
        sections = []
        for title, keys in (*HELP, IN_BROWSER) if self.app.is_web else HELP:
            lines = [Content(title).stylize("bold $accent")]
            for key, what in keys:
                left = wrap(fill(key), _KEYS - 1)
                right = wrap(fill(what), max(10, width - _KEYS - 2))
                for pressed, does in zip_longest(left, right, fillvalue=""):
                    lines.append(Content.assemble(f"  {pressed:<{_KEYS}}", (does, "$text-muted")))
            sections.append(lines)
        marks = [Content(f"{f'{look.glyph} {look.word}':<15}").stylize(look.variable) for look in Look]
        sections.append(
            [
                Content("Nodes and blocks").stylize("bold $accent"),
                *(Content.assemble("  ", *marks[at : at + 3]) for at in range(0, len(marks), 3)),
                Content(f"  {HERE} what this chat leads through now; {ONCE} another branch of it"),
            ]
        )
        return sections


def _side_by_side(sections: list[list[Content]], width: int) -> list[Content]:
    """In two columns of ``width`` cells, as even as whole sections allow."""
    heights = [len(section) for section in sections]
    split = min(range(1, len(sections)), key=lambda at: max(sum(heights[:at]), sum(heights[at:])))
    left = [line for section in sections[:split] for line in section]
    right = [line for section in sections[split:] for line in section]
    return [
        Content.assemble(one.pad_right(width + _GAP - one.cell_length), two)
        for one, two in zip_longest(left, right, fillvalue=Content(""))
    ]


class Help(Dialog[None]):
    """Escape, f1, ? or q closes it. The app keeps it, so that it is there at once."""

    BINDINGS: ClassVar[list[BindingType]] = [bind("dialog.close_help", "close")]
    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (170, "-broad")]  # noqa: RUF012

    DEFAULT_CSS = """
    Help { align: center middle; }
    Help > VerticalScroll {
        width: 84; max-width: 96%; height: auto; max-height: 82%;
        border: round $accent; background: $surface; padding: 0 2; border-title-color: $accent;
        border-subtitle-color: $text-muted; scrollbar-size-vertical: 1;
    }
    Help.-broad > VerticalScroll { width: 164; max-height: 96%; }
    """

    def compose(self) -> ComposeResult:
        """Its parts."""
        with VerticalScroll() as box:
            box.border_title = "Keys"
            box.border_subtitle = f"{hint('dialog.close_help')} closes"
            yield KeyTable()

    def on_screen_resume(self) -> None:
        """It opens at its beginning."""
        self.query_one(VerticalScroll).scroll_home(animate=False)

    def action_close(self) -> None:
        """Close."""
        self.dismiss(None)
