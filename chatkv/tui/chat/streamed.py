"""Markdown that grows without laying the whole screen out for every word."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Label, Markdown, Static
from textual.widgets._markdown import MarkdownBlock, MarkdownFence, MarkdownParagraph

from chatkv.tui.cheap_layout import LaidOutOnce


def put(content: Content, into: Static) -> None:
    """Show ``content``; a layout follows only where it takes other lines than what was there."""
    width, height = into.content_size
    into.update(content, layout=False)
    if into.is_attached and width and into.get_content_height(into.size, into.size, width) != height:
        into.refresh(layout=True)


class _Paragraph(LaidOutOnce, MarkdownParagraph):
    def set_content(self, content: Content) -> None:
        """See the base class."""
        self._content = content
        put(content, self)


class _Fence(LaidOutOnce, MarkdownFence):
    def set_content(self, content: Content) -> None:
        """See the base class."""
        self._content = content
        for label in self.query(Label).filter("#code-content"):
            put(content, label)


class StreamedMarkdown(LaidOutOnce, Markdown):
    """What grows is the last paragraph or block of code, and most words need no other line."""

    BLOCKS: dict[str, type[MarkdownBlock]] = {  # noqa: RUF012 (as the base class has it)
        **Markdown.BLOCKS,
        "paragraph_open": _Paragraph,
        "fence": _Fence,
        "code_block": _Fence,
    }
