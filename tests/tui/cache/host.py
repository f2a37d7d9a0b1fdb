"""A small app that holds one widget."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.message import Message
from textual.widget import Widget

from chatkv.tui.cache.messages import BlockSelected, NodeSelected
from chatkv.tui.themes import KV_DEFAULTS


class Host(App[None]):
    CSS = ".pane { border: round $foreground 30%; }"

    def __init__(self, *widgets: Widget) -> None:
        super().__init__()
        self.widgets = widgets
        self.posted: list[Message] = []

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return KV_DEFAULTS

    def compose(self) -> ComposeResult:
        for widget in self.widgets:
            yield widget.add_class("pane")

    def on_node_selected(self, message: NodeSelected) -> None:
        self.posted.append(message)

    def on_block_selected(self, message: BlockSelected) -> None:
        self.posted.append(message)


def text_of(widget: Widget) -> list[str]:
    """What the widget's content area shows, line by line."""
    region = widget.scrollable_content_region
    lines = []
    for y in range(region.height):
        lines.append(widget.render_line(y).text.rstrip())
    return lines


def colours_of(app: App[None]) -> set[tuple[int, int, int]]:
    """All colours on the screen, after the filters that ``NO_COLOR`` and the like put in."""
    found = set()
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if segment.style is not None:
                found |= {colour.triplet for colour in (segment.style.color, segment.style.bgcolor) if colour}
    return {(c.red, c.green, c.blue) for c in found if c is not None}


def looks_of(app: App[None], part: str) -> set[str]:
    """All colours on the screen (``part``: color or bgcolor) by name; ``default`` is the terminal's own."""
    return {
        color.name
        for strip in app.screen._compositor.render_strips()
        for segment in strip
        if (color := getattr(segment.style, part, None)) is not None
    }
