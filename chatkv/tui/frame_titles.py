"""Titles in the frame of a pane: with another title only the frame's row is drawn anew."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget


def title_frame(widget: Widget, title: Content) -> None:
    """``title``, of one line, in the upper edge of ``widget``'s frame."""
    # Assigning ``border_title`` has all of the widget drawn anew, with what lies in it.
    widget._border_title = title
    _row(widget, 0)


def subtitle_frame(widget: Widget, subtitle: Content) -> None:
    """``subtitle``, of one line, in the lower edge of ``widget``'s frame."""
    widget._border_subtitle = subtitle
    _row(widget, widget.outer_size.height - 1)


def _row(widget: Widget, row: int) -> None:
    x, y = widget.content_offset
    widget.refresh(Region(-x, row - y, widget.outer_size.width, 1))
